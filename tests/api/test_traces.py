"""Traces, as a collector gets them: what hangs together, and that every ending ends its spans."""

from __future__ import annotations

import socket
import sys
import time
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest

from fakes.collector import FakeCollector, Seen
from fakes.service import SAID, RunningService
from fakes.triton import Abort, Fail, FakeTriton, Gate, Hang, Script, tone
from gateway.app import create_app
from gateway.settings import Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SPEECH = "/v1/audio/speech"
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT_ID = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{PARENT_ID}-01"
TWO_SEGMENTS = "One sentence is here. " * 6
SERVER, INTERNAL, CLIENT = 2, 1, 3
KEY = "correct-horse"


@pytest.fixture
def collector() -> Iterator[FakeCollector]:
    with FakeCollector() as fake:
        yield fake


def traced(
    triton: FakeTriton,
    collector: FakeCollector,
    ask: Callable[[RunningService], Any],
    **settings: Any,
) -> list[Seen]:
    """Return the spans that are there once the service has stopped."""
    with RunningService(triton, otlp_endpoint=collector.endpoint, **settings) as service:
        ask(service)
    return collector.spans


def only(spans: list[Seen], name: str) -> Seen:
    [span] = [span for span in spans if span.name == name]
    return span


def speak(service: RunningService) -> httpx.Response:
    headers = {"traceparent": TRACEPARENT, "tracestate": "vendor=1", "x-request-id": "req-7"}
    return service.client.post(SPEECH, json=SAID | {"input": TWO_SEGMENTS}, headers=headers)


def test_a_request_is_one_trace_from_its_caller_to_triton(
    triton: FakeTriton, collector: FakeCollector
) -> None:
    spans = traced(triton, collector, speak)

    request, permit = only(spans, f"POST {SPEECH}"), only(spans, "speech.permit")
    segments = [span for span in spans if span.name == "speech.segment"]
    streams = [span for span in spans if span.name == "triton.stream"]
    assert len(spans) == 2 + len(segments) + len(streams)
    assert {span.trace_id for span in spans} == {TRACE_ID}
    assert (request.parent_id, request.kind) == (PARENT_ID, SERVER)
    assert {span.parent_id for span in (permit, *segments)} == {request.span_id}
    assert len(segments) > 1
    assert [span.parent_id for span in streams] == [span.span_id for span in segments]
    assert {span.kind for span in streams} == {CLIENT}
    sent = [metadata["traceparent"] for metadata in triton.seen.metadata]
    assert sent == [f"00-{TRACE_ID}-{span.span_id}-01" for span in streams]
    assert {metadata["tracestate"] for metadata in triton.seen.metadata} == {"vendor=1"}
    assert all(request.began_ns <= s.began_ns <= s.ended_ns <= request.ended_ns for s in spans)


def test_a_request_says_what_it_was_and_never_its_text(
    triton: FakeTriton, collector: FakeCollector
) -> None:
    def ask(service: RunningService) -> None:
        service.client.headers["authorization"] = f"Bearer {KEY}"
        speak(service)

    spans = traced(triton, collector, ask, api_keys=f"alice:{KEY}")

    request = only(spans, f"POST {SPEECH}")
    assert (
        request.attributes.items()
        >= {
            "http.request.method": "POST",
            "url.path": SPEECH,
            "http.route": SPEECH,
            "http.response.status_code": 200,
            "speech.request_id": "req-7",
            "speech.model": "hibari",
            "speech.voice": "heart",
            "speech.caller": "alice",
            "speech.characters": len(TWO_SEGMENTS),
            "speech.outcome": "finished",
            "speech.replica": triton.address,
        }.items()
    )
    assert request.attributes["speech.audio_seconds"] > 0
    assert not any(span.is_error for span in spans)
    sent = b"".join(collector.bodies)
    assert b"sentence" not in sent
    assert KEY.encode() not in sent
    assert b"speech-gateway" in sent


UNAVAILABLE = Abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
FAILURES = {
    "failed": ([Fail("A secret: Hello.")], "failed", "backend_failed", 502),
    "unavailable": ([UNAVAILABLE], "failed", "backend_unavailable", 503),
    "timed out": ([Hang()], "timed_out", "backend_timeout", 504),
    "invalid": ([Fail("invalid_input: Hello.")], "rejected", "invalid_value", 400),
    "failed mid-stream": ([tone(), Fail("Hello.")], "failed", "backend_failed", 200),
    "hangs mid-stream": ([tone(), Hang()], "timed_out", "backend_timeout", 200),
}


@pytest.mark.parametrize(
    ("steps", "outcome", "code", "status"), FAILURES.values(), ids=FAILURES.keys()
)
def test_a_failure_ends_every_span_with_its_code(
    triton: FakeTriton,
    collector: FakeCollector,
    steps: list[Any],
    outcome: str,
    code: str,
    status: int,
) -> None:
    triton.script = Script(steps)
    limits = {"first_audio_timeout_seconds": 0.2, "gap_timeout_seconds": 0.2}

    def ask(service: RunningService) -> None:
        try:
            assert service.say().status_code == status
        except httpx.RemoteProtocolError:
            assert status == 200

    spans = traced(triton, collector, ask, **limits)

    request = only(spans, f"POST {SPEECH}")
    assert request.attributes["speech.outcome"] == outcome
    assert request.attributes["http.response.status_code"] == status
    is_ours = code != "invalid_value"
    for name in (f"POST {SPEECH}", "speech.segment", "triton.stream"):
        span = only(spans, name)
        assert (span.attributes["error.type"], span.is_error) == (code, is_ours)
    assert b"Hello." not in b"".join(collector.bodies)


def leave_before_audio(triton: FakeTriton, service: RunningService) -> None:
    triton.script = Script([Hang()])
    with service.send():
        assert triton.seen.started.wait()


def leave_mid_stream(triton: FakeTriton, service: RunningService) -> None:
    triton.script = Script([tone(), Gate()])
    with service.client.stream("POST", SPEECH, json=SAID) as response:
        next(response.iter_raw())


@pytest.mark.parametrize("leave", [leave_before_audio, leave_mid_stream])
def test_a_client_that_leaves_ends_every_span(
    triton: FakeTriton,
    collector: FakeCollector,
    leave: Callable[[FakeTriton, RunningService], None],
) -> None:
    def ask(service: RunningService) -> None:
        leave(triton, service)
        assert service.log.ended.wait()

    spans = traced(triton, collector, ask)

    request = only(spans, f"POST {SPEECH}")
    assert request.attributes["speech.outcome"] == "cancelled"
    assert {span.name for span in spans} == {
        *(request.name, "speech.permit", "speech.segment", "triton.stream")
    }
    assert only(spans, "triton.stream").attributes["speech.cancelled"]
    assert not any(span.is_error for span in spans)


def test_neither_a_probe_nor_who_lacks_a_key_writes_spans(
    triton: FakeTriton, collector: FakeCollector
) -> None:
    def ask(service: RunningService) -> None:
        for path in ("/livez", "/readyz", "/health", "/metrics"):
            service.client.get(path)
        assert service.say().status_code == 401
        service.client.headers["authorization"] = f"Bearer {KEY}"
        assert service.client.get("/v1/nothing", headers={"traceparent": "x"}).status_code == 404

    [span] = traced(triton, collector, ask, api_keys=f"alice:{KEY}")

    assert span.name == "GET"
    assert span.attributes["http.response.status_code"] == 404
    assert span.parent_id == ""


def test_without_a_collector_triton_gets_no_traceparent(
    triton: FakeTriton, service: RunningService
) -> None:
    assert speak(service).status_code == 200

    assert triton.seen.metadata
    assert all("traceparent" not in metadata for metadata in triton.seen.metadata)


@pytest.mark.parametrize("is_listening", [False, True], ids=["refuses", "never answers"])
def test_a_dead_collector_neither_slows_nor_fails_a_request(
    triton: FakeTriton, *, is_listening: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as dead:
        port = dead.getsockname()[1]
        if not is_listening:
            dead.close()
        endpoint = f"http://127.0.0.1:{port}"
        with RunningService(triton, otlp_endpoint=endpoint) as service:
            statuses = {service.say().status_code for _ in range(5)}
            slowest = service.metric("speech_stream_seconds_sum")
            closing_at = time.monotonic()
        seconds = time.monotonic() - closing_at

    assert statuses == {200}
    assert slowest < 2
    assert seconds < 5


def test_an_endpoint_without_the_extra_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "gateway.telemetry.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    with pytest.raises(SettingsError, match=r"pip install 'speech-gateway\[tracing\]'"):
        create_app(Settings(_env_file=None, otlp_endpoint="http://127.0.0.1:4318"))
