"""The official `openai` package, unmodified, against the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import openai
import pytest

from fakes.service import SAID, RunningService
from fakes.triton import Abort, Fail, FakeTriton, Hang, Script, tone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def client(service: RunningService) -> Iterator[openai.OpenAI]:
    with make_client(service) as made:
        yield made


def make_client(service: RunningService) -> openai.OpenAI:
    """Return a client that asks once: a retry would hide an error."""
    return openai.OpenAI(base_url=f"{service.base_url}/v1", api_key="none", max_retries=0)


@pytest.mark.parametrize(
    ("fields", "error", "param", "code", "words"),
    [
        ({"input": ""}, openai.BadRequestError, "input", "invalid_value", "at least 1 char"),
        ({"voice": "x"}, openai.BadRequestError, "voice", "voice_not_found", "'x'"),
        ({"speed": 5}, openai.BadRequestError, "speed", "invalid_value", "'speed'"),
        (
            {"response_format": "midi"},
            openai.BadRequestError,
            "response_format",
            "invalid_value",
            "'mp3', 'opus', 'aac', 'flac', 'wav' or 'pcm'",
        ),
        ({"model": "tts-9"}, openai.NotFoundError, "model", "model_not_found", "'tts-9'"),
        (
            {"input": "x" * 2_000_000},
            openai.APIStatusError,
            None,
            "request_too_large",
            "1048576 bytes",
        ),
    ],
    ids=["empty", "voice", "speed", "format", "model", "size"],
)
def test_the_callers_mistakes_are_typed_exceptions_with_the_servers_words(
    client: openai.OpenAI,
    fields: Any,
    error: type[openai.APIStatusError],
    param: str,
    code: str,
    words: str,
) -> None:
    with pytest.raises(error) as caught:
        client.audio.speech.create(**SAID | fields)

    assert (caught.value.param, caught.value.code) == (param, code)
    assert caught.value.type == "invalid_request_error"
    assert words in str(caught.value)
    assert caught.value.request_id


@pytest.mark.parametrize(
    ("script", "status", "code"),
    [
        (Script([Fail("out of memory")]), 502, "backend_failed"),
        (Script([Abort(grpc.StatusCode.UNAVAILABLE)]), 503, "backend_unavailable"),
        (Script([Abort(grpc.StatusCode.UNIMPLEMENTED)]), 500, "misconfigured"),
        (Script([Hang()]), 504, "backend_timeout"),
    ],
    ids=["failed", "unavailable", "misconfigured", "silent"],
)
def test_errors_behind_the_service_are_internal_server_errors(
    triton: FakeTriton, script: Script, status: int, code: str
) -> None:
    triton.script = script

    with (
        RunningService(triton, first_audio_timeout_seconds=0.2) as service,
        make_client(service) as client,
        pytest.raises(openai.InternalServerError) as caught,
    ):
        client.audio.speech.create(**SAID)

    assert (caught.value.status_code, caught.value.code) == (status, code)
    assert caught.value.type == "server_error"


def test_too_many_requests_are_a_rate_limit_error_that_says_when_to_come_back(
    triton: FakeTriton,
) -> None:
    triton.script = Script([tone(), Hang()])
    limits = {"max_concurrent_requests": 1, "admission_wait_seconds": 0}

    with (
        RunningService(triton, **limits) as service,
        make_client(service) as client,
        client.audio.speech.with_streaming_response.create(**SAID),
        pytest.raises(openai.RateLimitError) as caught,
    ):
        client.audio.speech.create(**SAID)

    assert caught.value.code == "overloaded"
    assert "SPEECH_MAX_CONCURRENT_REQUESTS" in str(caught.value)
    assert caught.value.response.headers["retry-after-ms"] == "1000"


def test_a_streamed_file_holds_the_same_bytes_as_a_plain_answer(
    client: openai.OpenAI, tmp_path: Path
) -> None:
    file = tmp_path / "speech.wav"
    request = SAID | {"response_format": "wav"}

    with client.audio.speech.with_streaming_response.create(**request) as response:
        response.stream_to_file(file)

    assert file.read_bytes() == client.audio.speech.create(**request).content
    assert file.stat().st_size > 44


def test_models_are_listed_and_retrieved(client: openai.OpenAI) -> None:
    names = [model.id for model in client.models.list()][:1]

    assert names == ["hibari"]
    assert client.models.retrieve("hibari").owned_by == "speech-gateway"


def test_extra_fields_pass(client: openai.OpenAI) -> None:
    response = client.audio.speech.create(**SAID, extra_body={"volume_multiplier": 2})

    assert response.response.headers["x-speech-ignored"] == "volume_multiplier"
