"""More requests than permits: refused at the door, or let in when a permit comes free."""

from __future__ import annotations

from fakes.service import SAID, RunningService, assert_ended
from fakes.triton import FakeTriton, Gate, Hang, Script, tone

SPEECH = "/v1/audio/speech"


def test_overload_is_refused_at_the_door(triton: FakeTriton) -> None:
    triton.script = Script([tone(), Hang()])

    with RunningService(triton, max_concurrent_requests=1, admission_wait_seconds=0) as service:
        with service.client.stream("POST", SPEECH, json=SAID):
            response = service.say()

        assert response.status_code == 429
        assert response.json()["error"]["type"] == "rate_limit_error"
        assert response.headers["retry-after"] == "1"
        assert response.headers["retry-after-ms"] == "1000"
        assert triton.seen.started.count == 1
        assert_ended(service, triton, rejected=1, cancelled=1)


def test_a_permit_that_does_not_come_free_within_the_wait_is_a_429(triton: FakeTriton) -> None:
    triton.script = Script([tone(), Hang()])
    limits = {"max_concurrent_requests": 1, "admission_wait_seconds": 0.1}

    with (
        RunningService(triton, **limits) as service,
        service.client.stream("POST", SPEECH, json=SAID),
    ):
        response = service.say()

    assert response.status_code == 429
    assert "within 0.1 s" in response.json()["error"]["message"]


def test_a_waiting_request_is_admitted_when_a_permit_comes_free(triton: FakeTriton) -> None:
    gate = Gate()
    triton.script = Script([tone(), gate])
    limits = {"max_concurrent_requests": 1, "admission_wait_seconds": 10}

    with RunningService(triton, **limits) as service:
        with service.client.stream("POST", SPEECH, json=SAID) as first:
            waiting = service.send()
            while_waiting = [service.figures(), service.figures()]
            at_triton = triton.seen.started.count
            gate.open()
            first.read()
        with waiting:
            answer = waiting.makefile("rb").readline()

        assert while_waiting == [{"in_flight": 1}, {"in_flight": 1}]
        assert at_triton == 1
        assert answer == b"HTTP/1.1 200 OK\r\n"
        assert service.log.ended.wait(2)
        assert triton.seen.started.count == 2


def test_a_client_that_gives_up_waiting_for_a_permit_never_reaches_triton(
    triton: FakeTriton,
) -> None:
    gate = Gate()
    triton.script = Script([tone(), gate])
    limits = {"max_concurrent_requests": 1, "admission_wait_seconds": 10}

    with RunningService(triton, **limits) as service:
        with service.client.stream("POST", SPEECH, json=SAID) as first:
            with service.send():
                service.figures()
            assert service.log.ended.wait(1)
            gate.open()
            first.read()

        assert triton.seen.started.count == 1
        assert_ended(service, triton, finished=1, cancelled=1)
