"""Pipecat's OpenAITTSService, in a pipeline of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from openai import DefaultAsyncHttpxClient
from pipecat.frames.frames import ErrorFrame, TTSAudioRawFrame, TTSSpeakFrame
from pipecat.services.openai.tts import OpenAITTSService
from pipecat.tests.utils import run_test


def speak(service: Any, text: str, **settings: Any) -> tuple[Any, Any]:
    """Return the frames that leave the service, and those that it sends back."""

    async def run() -> tuple[Any, Any]:
        async with DefaultAsyncHttpxClient() as http:
            tts = OpenAITTSService(
                api_key="client-key",
                base_url=service.base_url,
                http_client=http,
                sample_rate=24_000,
                settings=OpenAITTSService.Settings(**settings),
            )
            return await run_test(tts, frames_to_send=[TTSSpeakFrame(text=text)])

    return asyncio.run(run())


def test_all_of_the_speech_is_heard(service: Any) -> None:
    """Its defaults are gpt-4o-mini-tts and alloy; it asks for pcm."""
    frames, back = speak(service, service.said["input"])

    audio = [frame for frame in frames if isinstance(frame, TTSAudioRawFrame)]
    assert {(frame.sample_rate, frame.num_channels) for frame in audio} == {(24_000, 1)}
    assert sum(frame.num_frames for frame in audio) == service.samples
    assert [frame for frame in back if isinstance(frame, ErrorFrame)] == []
    [heard] = service.heard()
    assert heard == {"text": service.said["input"], "voice": "heart"}


def test_a_mistake_is_an_error_frame_with_the_services_words(service: Any) -> None:
    _, back = speak(service, "Hello.", speed=9.0)

    error, *_ = [frame for frame in back if isinstance(frame, ErrorFrame)]
    assert "'speed'" in error.error
