"""LiveKit Agents' TTS plugin for OpenAI."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from livekit.agents import APIConnectionError, APIConnectOptions, APIStatusError
from livekit.plugins.openai import TTS

ONCE = APIConnectOptions(max_retry=0)


def synthesize(service: Any, text: str, **options: Any) -> Any:
    """Return what the plugin makes of a text: one frame of 24 kHz, mono."""

    async def collect() -> Any:
        tts = TTS(base_url=service.base_url, api_key="client-key", **options)
        try:
            return await tts.synthesize(text, conn_options=ONCE).collect()
        finally:
            await tts.aclose()

    return asyncio.run(collect())


@pytest.mark.parametrize(
    "options",
    [{}, {"model": "tts-1"}, {"response_format": "pcm"}, {"response_format": "wav"}],
    ids=["defaults: events of mp3", "tts-1: mp3", "events of pcm", "events of wav"],
)
def test_all_of_the_speech_is_heard(service: Any, options: Any) -> None:
    frame = synthesize(service, service.said["input"], **options)

    assert (frame.sample_rate, frame.num_channels) == (24_000, 1)
    assert frame.samples_per_channel == service.decoded_samples
    [heard] = service.heard()
    assert heard == {"text": service.said["input"], "voice": "heart"}


def test_the_first_frame_comes_before_the_model_has_finished(service: Any) -> None:
    """The plugin itself ends a stream with 10 ms of silence."""

    async def listen() -> tuple[int, int]:
        tts = TTS(base_url=service.base_url, api_key="client-key", response_format="pcm")
        async with tts.synthesize("Hello.", conn_options=ONCE) as frames:
            first = (await anext(frames)).frame.samples_per_channel
            service.release()
            rest = sum([event.frame.samples_per_channel async for event in frames])
        await tts.aclose()
        return first, rest

    service.play("wait after the first")

    first, rest = asyncio.run(listen())

    assert 0 < first <= service.first_samples
    assert first + rest in (service.samples, service.samples + 240)


def test_a_mistake_is_the_plugins_own_error(service: Any) -> None:
    with pytest.raises(APIStatusError, match="'nobody'") as caught:
        synthesize(service, "Hello.", voice="nobody")

    assert caught.value.status_code == 400
    assert caught.value.request_id


@pytest.mark.parametrize("options", [{}, {"model": "tts-1"}], ids=["events", "audio"])
def test_a_model_that_breaks_off_is_an_error(service: Any, options: Any) -> None:
    """A part must not be taken for the whole, and the plugin knows no error event."""
    service.play("fail after the first")

    with pytest.raises(APIConnectionError):
        synthesize(service, "Hello.", **options)
