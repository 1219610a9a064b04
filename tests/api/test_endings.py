"""Every way in which a request can end: what the client sees, and that nothing stays behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest

from fakes.service import SAID, RunningService, assert_ended
from fakes.triton import (
    NO_SAMPLES,
    Abort,
    Fail,
    FakeTriton,
    Garbage,
    Hang,
    Misplaced,
    Script,
    tone,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

SPEECH = "/v1/audio/speech"
UNAVAILABLE = Abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
HALF = 2 * len(tone())
"""Bytes of the one chunk that comes before something breaks."""
WAYS: list[dict[str, Any]] = [
    *({"response_format": name} for name in ("mp3", "opus", "aac", "flac", "wav", "pcm")),
    {"stream_format": "sse"},
    {"stream": False},
]
EVERY_WAY = pytest.mark.parametrize("way", WAYS, ids=lambda way: str(*way.values()))
SHORT = {
    "first_audio_timeout_seconds": 1.0,
    "gap_timeout_seconds": 1.0,
    "max_concurrent_requests": 1,
    "admission_wait_seconds": 0.0,
}


@pytest.fixture
def service(triton: FakeTriton) -> Iterator[RunningService]:
    """Give a service with one permit and little patience."""
    with RunningService(triton, **SHORT) as running:
        yield running


def error_of(response: httpx.Response) -> dict[str, Any]:
    """Return the error in an answer of OpenAI's shape."""
    error: dict[str, Any] = response.json()["error"]
    return error


def heard_until_broken(service: RunningService) -> bytes:
    """Return what a client hears of a body that must break off."""
    heard: list[bytes] = []
    with (
        service.client.stream("POST", SPEECH, json=SAID) as response,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        heard.extend(response.iter_raw())
    assert response.status_code == 200
    return b"".join(heard)


def test_finished(triton: FakeTriton, service: RunningService) -> None:
    response = service.say()

    assert response.status_code == 200
    assert_ended(service, triton, finished=1)
    assert (triton.seen.finished.count, triton.seen.cancelled.count) == (1, 0)


def test_client_gone_before_the_first_audio(triton: FakeTriton) -> None:
    triton.script = Script([Hang()])

    with RunningService(triton) as service:
        with service.send():
            assert triton.seen.started.wait()

        assert triton.seen.cancelled.wait()
        assert_ended(service, triton, cancelled=1)


def test_client_gone_mid_stream(triton: FakeTriton) -> None:
    triton.script = Script([tone(), Hang()])

    with RunningService(triton) as service:
        with service.client.stream("POST", SPEECH, json=SAID) as response:
            first = next(response.iter_raw())

        assert len(first) == HALF
        assert triton.seen.cancelled.wait()
        assert_ended(service, triton, cancelled=1)


@dataclass(frozen=True)
class Early:
    """An ending before any audio: what the model does, what the client and the metrics say."""

    steps: list[Any]
    status: int
    code: str
    outcome: str
    words: str


BEFORE_AUDIO = {
    "model failed": Early([Fail("x.py: boom")], 502, "backend_failed", "failed", "model failed"),
    "invalid input": Early(
        [Fail("in stage 1: invalid_input: no letters")],
        400,
        "invalid_value",
        "rejected",
        "no letters",
    ),
    "queue full": Early(
        [Fail("Exceeds maximum queue size")], 429, "overloaded", "rejected", "queue is full"
    ),
    "aborted": Early([UNAVAILABLE], 503, "backend_unavailable", "failed", "cannot be reached"),
    "garbage": Early([Garbage()], 502, "backend_failed", "failed", "contract"),
    "misplaced": Early([Misplaced(tone())], 502, "backend_failed", "failed", "gap"),
    "no audio": Early([], 400, "no_audio", "rejected", "made no audio"),
    "no samples": Early([NO_SAMPLES], 400, "no_audio", "rejected", "made no audio"),
    "hang": Early([Hang()], 504, "backend_timeout", "timed_out", "silent for 1 s"),
    "no samples, hang": Early([NO_SAMPLES, Hang()], 504, "backend_timeout", "timed_out", "silent"),
}


@pytest.mark.parametrize("early", BEFORE_AUDIO.values(), ids=BEFORE_AUDIO.keys())
@EVERY_WAY
def test_what_breaks_before_audio_is_a_real_status(
    triton: FakeTriton, service: RunningService, way: dict[str, Any], early: Early
) -> None:
    triton.script = Script(early.steps)

    response = service.say(**way)

    assert response.status_code == early.status
    assert error_of(response)["code"] == early.code
    assert early.words in error_of(response)["message"]
    assert "boom" not in response.text
    assert "stage" not in response.text
    assert_ended(service, triton, **{early.outcome: 1})
    assert triton.seen.cancelled.count >= (early.outcome == "timed_out")


@pytest.mark.parametrize("steps", [[UNAVAILABLE], [Fail("Exceeds maximum queue size")]])
def test_what_passes_soon_says_when_to_come_back(
    triton: FakeTriton, service: RunningService, steps: list[Any]
) -> None:
    triton.script = Script(steps)

    response = service.say()

    assert response.headers["retry-after"] == "1"
    assert response.headers["retry-after-ms"] == "1000"


def test_no_triton_at_all(triton: FakeTriton, service: RunningService) -> None:
    triton.stop()

    response = service.say()

    assert response.status_code == 503
    assert error_of(response)["code"] == "backend_unavailable"
    assert response.headers["retry-after-ms"] == "1000"
    assert_ended(service, triton, failed=1)


def test_end_without_final_before_audio(triton: FakeTriton, service: RunningService) -> None:
    triton.script = Script([], sends_final=False)

    response = service.say()

    assert response.status_code == 503
    assert "ended the stream" in error_of(response)["message"]
    assert_ended(service, triton, failed=1)


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        pytest.param(Script([tone(), Fail("boom")]), "failed", id="model failed"),
        pytest.param(Script([tone(), NO_SAMPLES, Fail("boom")]), "failed", id="no samples"),
        pytest.param(Script([tone(), Fail("invalid_input: x")]), "failed", id="invalid input"),
        pytest.param(Script([tone(), UNAVAILABLE]), "failed", id="aborted"),
        pytest.param(Script([tone()], sends_final=False), "failed", id="no FINAL"),
        pytest.param(Script([tone(), Misplaced(tone())]), "failed", id="misplaced"),
        pytest.param(Script([tone(), Garbage()]), "failed", id="garbage"),
        pytest.param(Script([tone(), Hang()]), "timed_out", id="hang"),
    ],
)
def test_what_breaks_after_audio_breaks_the_body(
    triton: FakeTriton, service: RunningService, script: Script, outcome: str
) -> None:
    triton.script = script

    heard = heard_until_broken(service)

    assert len(heard) == HALF
    assert_ended(service, triton, **{outcome: 1})
    assert triton.seen.cancelled.count >= (outcome == "timed_out")


def test_triton_gone_mid_stream(triton: FakeTriton, service: RunningService) -> None:
    triton.script = Script([tone(), Hang()])

    with service.client.stream("POST", SPEECH, json=SAID) as response:
        packets = response.iter_raw()
        next(packets)
        triton.stop()
        with pytest.raises(httpx.RemoteProtocolError):
            list(packets)

    assert_ended(service, triton, failed=1)


@pytest.mark.parametrize("limit", ["request_timeout_seconds", "first_audio_timeout_seconds"])
def test_time_is_up_before_audio(triton: FakeTriton, limit: str) -> None:
    triton.script = Script([Hang()])

    with RunningService(triton, **{limit: 0.2}) as service:
        response = service.say()

        assert response.status_code == 504
        assert triton.seen.cancelled.wait()
        assert_ended(service, triton, timed_out=1)


@pytest.mark.parametrize("limit", ["request_timeout_seconds", "gap_timeout_seconds"])
def test_time_is_up_mid_stream(triton: FakeTriton, limit: str) -> None:
    triton.script = Script([tone(), Hang()])

    with RunningService(triton, **{limit: 0.2}) as service:
        heard = heard_until_broken(service)

        assert len(heard) == HALF
        assert triton.seen.cancelled.wait()
        assert_ended(service, triton, timed_out=1)
