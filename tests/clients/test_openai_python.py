"""The `openai` Python package."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

import openai
import pytest

from fakes.decoding import decode

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMATS = pytest.mark.parametrize("name", ["mp3", "opus", "aac", "flac", "wav", "pcm"])
MISTAKES = pytest.mark.parametrize(
    ("fields", "error", "code", "words"),
    [
        ({"voice": "nobody"}, openai.BadRequestError, "voice_not_found", "'nobody'"),
        ({"model": "tts-9"}, openai.NotFoundError, "model_not_found", "'tts-9'"),
        ({"response_format": "midi"}, openai.BadRequestError, "invalid_value", "'mp3'"),
    ],
    ids=["voice", "model", "format"],
)


@pytest.fixture
def client(service: Any) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=service.base_url, api_key="client-key") as made:
        yield made


@pytest.fixture
def asynchronous(service: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=service.base_url, api_key="client-key")


def length(name: str, data: bytes) -> int:
    """Return how many samples a file holds."""
    return len(data) // 2 if name == "pcm" else len(decode(data))


@FORMATS
def test_create_returns_the_whole_speech(service: Any, client: openai.OpenAI, name: Any) -> None:
    speech = client.audio.speech.create(**service.said, response_format=name)

    assert length(name, speech.content) == service.decoded_samples


@FORMATS
def test_the_asynchronous_create_does_too(
    service: Any, asynchronous: openai.AsyncOpenAI, name: Any
) -> None:
    async def create() -> bytes:
        async with asynchronous as client:
            return (await client.audio.speech.create(**service.said, response_format=name)).content

    assert length(name, asyncio.run(create())) == service.decoded_samples


@FORMATS
def test_the_stream_begins_before_the_model_has_finished(
    service: Any, client: openai.OpenAI, name: Any
) -> None:
    service.play("wait after the first")

    with client.audio.speech.with_streaming_response.create(
        **service.said, response_format=name
    ) as response:
        pieces = response.iter_bytes()
        first = next(pieces)
        service.release()
        rest = b"".join(pieces)

    assert 0 < length(name, first) < service.samples
    assert length(name, first + rest) == service.decoded_samples


def test_the_asynchronous_stream_does_too(service: Any, asynchronous: openai.AsyncOpenAI) -> None:
    async def stream() -> tuple[bytes, bytes]:
        async with (
            asynchronous as client,
            client.audio.speech.with_streaming_response.create(
                **service.said, response_format="pcm"
            ) as response,
        ):
            pieces = response.iter_bytes()
            first = await anext(pieces)
            service.release()
            return first, b"".join([piece async for piece in pieces])

    service.play("wait after the first")

    first, rest = asyncio.run(stream())

    assert len(first) == 2 * service.first_samples
    assert len(first + rest) == 2 * service.samples


@MISTAKES
def test_a_mistake_is_the_packages_own_exception(
    service: Any, client: openai.OpenAI, fields: Any, error: Any, code: str, words: str
) -> None:
    [param] = fields

    with pytest.raises(error) as caught:
        client.audio.speech.create(**service.said | fields)

    assert (caught.value.code, caught.value.param) == (code, param)
    assert words in caught.value.message
    assert caught.value.request_id


@MISTAKES
def test_it_is_so_when_the_answer_would_be_streamed(
    service: Any, asynchronous: openai.AsyncOpenAI, fields: Any, error: Any, code: str, words: str
) -> None:
    async def stream() -> None:
        async with (
            asynchronous as client,
            client.audio.speech.with_streaming_response.create(**service.said | fields),
        ):
            pass

    with pytest.raises(error) as caught:
        asyncio.run(stream())

    assert caught.value.code == code
    assert words in caught.value.message
    assert caught.value.request_id


def test_a_model_that_fails_is_an_internal_server_error(
    service: Any, client: openai.OpenAI
) -> None:
    service.play("fail")

    with pytest.raises(openai.InternalServerError) as caught:
        client.with_options(max_retries=0).audio.speech.create(**service.said)

    assert (caught.value.status_code, caught.value.code) == (502, "backend_failed")


def test_events_are_lines_of_json(service: Any, client: openai.OpenAI) -> None:
    with client.audio.speech.with_streaming_response.create(
        **service.said, response_format="pcm", stream_format="sse"
    ) as response:
        lines = [line for line in response.iter_lines() if line]

    *deltas, done = [json.loads(line.removeprefix("data: ")) for line in lines]
    audio = b"".join(base64.b64decode(delta["audio"]) for delta in deltas)
    assert len(audio) == 2 * service.samples
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert done["type"] == "speech.audio.done"
    assert done["usage"]["total_tokens"] == len(service.said["input"]) + 100


def test_the_models_can_be_asked_for(service: Any, client: openai.OpenAI) -> None:
    assert client.models.retrieve(service.said["model"]).id == service.said["model"]
    assert [model.id for model in client.models.list()]
