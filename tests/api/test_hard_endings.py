"""Endings that only a hostile client, a broken model or a bug of ours brings about."""

from __future__ import annotations

import json
import socket
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from fakes.service import SAID, RunningService, assert_ended
from fakes.triton import Fail, FakeTriton, Hang, Script, tone
from gateway.app import create_app
from gateway.settings import Settings
from gateway.telemetry.logging import UNCOMPLETED

SPEECH = "/v1/audio/speech"


def test_a_listener_who_stops_reading_loses_his_permit_at_the_deadline(triton: FakeTriton) -> None:
    """More than all buffers between model and listener hold is waiting to be sent."""
    triton.script = Script([tone(240_000)] * 40)

    with (
        RunningService(triton, request_timeout_seconds=0.5) as service,
        socket.create_connection(("127.0.0.1", service.port)) as listener,
    ):
        body = json.dumps(SAID).encode()
        head = f"POST {SPEECH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        listener.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)

        assert_ended(service, triton, cancelled=1)


def test_a_listener_who_does_not_take_the_whole_keeps_his_permit_no_longer_than_the_deadline(
    triton: FakeTriton,
) -> None:
    triton.script = Script([tone(240_000)] * 40)

    with (
        RunningService(triton, request_timeout_seconds=2) as service,
        service.send(stream=False),
    ):
        assert triton.seen.finished.wait()
        while_it_is_sent = service.figures()
        assert_ended(service, triton, cancelled=1)
        assert service.metric("speech_streams_broken_total") == 0
        assert service.metric("speech_errors_total", code="listener_too_slow") == 1

    assert while_it_is_sent == {"in_flight": 1}


@pytest.mark.parametrize("rate_hz", [-24_000, 0, 7, 10**6])
def test_an_impossible_sample_rate_is_the_models_failure(
    triton: FakeTriton, service: RunningService, rate_hz: int
) -> None:
    assert service.say().status_code == 200  # With the contract known, the chunk alone is wrong.
    triton.script = Script([tone()], sample_rate_hz=rate_hz)

    response = service.say()

    assert response.status_code == 502
    assert_ended(service, triton, finished=1, failed=1)


def test_an_error_of_our_own_is_a_500_with_its_id_and_counts_as_failed() -> None:
    class Broken:
        async def voices(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("a bug")

    app = create_app(Settings(_env_file=None), Broken())
    with TestClient(app, raise_server_exceptions=False) as client:
        answer = client.post(SPEECH, json=SAID, headers={"x-request-id": "abc"})
        figures = client.get("/metrics").text

    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert answer.headers["x-request-id"] == "abc"
    assert 'speech_requests_total{model="hibari",outcome="failed"} 1.0' in figures


def test_the_text_is_never_logged(
    triton: FakeTriton, service: RunningService, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even where the model quotes it to the caller."""
    triton.script = Script([Fail("invalid_input: cannot read 'my secret'")])

    with caplog.at_level("INFO"):
        answer = service.say(input="my secret")
        assert_ended(service, triton, rejected=1)

    assert "my secret" in answer.json()["error"]["message"]
    assert "my secret" not in caplog.text


@pytest.mark.parametrize("takes_cancel", [True, False])
def test_a_model_is_asked_to_stop_and_only_one_that_cannot_be_asked_is_cut(
    triton: FakeTriton, service: RunningService, *, takes_cancel: bool
) -> None:
    """Cutting an RPC that the server writes to crashes Triton 2.51 now and then."""
    triton.script = Script([tone(), Hang()], takes_cancel=takes_cancel)
    service.learn()

    with service.client.stream("POST", SPEECH, json=SAID) as response:
        next(response.iter_bytes())

    assert_ended(service, triton, cancelled=1)
    assert triton.seen.cancelled.wait()
    assert triton.seen.cut.wait(timeout=0.0 if takes_cancel else 10.0) is not takes_cancel


def test_a_finished_request_is_not_cut_either(triton: FakeTriton, service: RunningService) -> None:
    assert service.say().status_code == 200

    assert_ended(service, triton, finished=1)
    assert triton.seen.cut.count == 0


def test_uvicorn_says_of_a_broken_stream_what_the_log_leaves_out(
    triton: FakeTriton, caplog: pytest.LogCaptureFixture
) -> None:
    triton.script = Script([tone(), Fail("boom")])
    with (
        RunningService(triton) as service,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        service.say()

    told = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert told == [UNCOMPLETED]
