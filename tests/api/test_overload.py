"""More requests than permits: refused at the door, or let in when a permit comes free."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import httpx
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

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


def test_ten_times_too_many_are_queued_or_refused_and_all_of_them_answered(
    triton: FakeTriton,
) -> None:
    gate = Gate()
    triton.script = Script([tone(), gate, tone()])
    limits = {"max_concurrent_requests": 4, "max_waiting_requests": 8, "admission_wait_seconds": 10}

    with RunningService(triton, **limits) as service:
        answers = asyncio.run(all_at_once(service, 48, gate))

        assert Counter(answer.status_code for answer in answers) == {200: 12, 429: 36}
        assert {len(answer.content) for answer in answers if answer.is_success} == {9600}
        refused = [answer for answer in answers if not answer.is_success]
        assert {answer.headers["retry-after-ms"] for answer in refused} == {"1000"}
        assert {answer.json()["error"]["code"] for answer in refused} == {"overloaded"}
        assert 1 < triton.seen.most_at_once <= 4
        assert_ended(service, triton, finished=12, rejected=36)
        figures = metrics(service)
        assert figures["speech_requests_refused_total", "queue_full"] == 36
        assert figures["speech_requests_waiting", ""] == 0
        assert figures["speech_admission_wait_seconds_count", "hibari"] == 12


async def all_at_once(service: RunningService, count: int, gate: Gate) -> list[httpx.Response]:
    """Ask many times at once; the model goes on when all that find no place have their answer."""
    answers: list[httpx.Response] = []
    places = service.settings.max_concurrent_requests + service.settings.max_waiting_requests

    async def ask(client: httpx.AsyncClient) -> None:
        answers.append(await client.post(SPEECH, json=SAID))
        if len(answers) == count - places:
            gate.open()

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=service.base_url, timeout=30, limits=limits) as client:
        await asyncio.gather(*(ask(client) for _ in range(count)))
    return answers


def metrics(service: RunningService) -> dict[tuple[str, str], float]:
    """Return the figures by name and label; the model stands for itself and its outcomes."""
    families = text_string_to_metric_families(service.client.get("/metrics").text)
    samples = [sample for family in families for sample in family.samples]
    return {
        (s.name, s.labels.get("reason") or s.labels.get("model", "")): s.value
        for s in samples
        if s.name.startswith("speech_")
    }


def test_the_waiting_are_counted_while_they_wait(triton: FakeTriton) -> None:
    gate = Gate()
    triton.script = Script([tone(), gate])
    limits = {"max_concurrent_requests": 1, "admission_wait_seconds": 10}

    with RunningService(triton, **limits) as service:
        with service.client.stream("POST", SPEECH, json=SAID) as first, service.send() as second:
            is_seen = any(metrics(service)["speech_requests_waiting", ""] == 1 for _ in range(1000))
            gate.open()
            first.read()
            second.makefile("rb").readline()

        assert is_seen


@pytest.mark.parametrize(
    ("limits", "reason", "words"),
    [
        ({"key_max_concurrent_requests": 1}, "key_concurrency", "SPEECH_KEY_MAX_CONCURRENT"),
        ({"key_requests_per_minute": 1}, "key_rate", "SPEECH_KEY_REQUESTS_PER_MINUTE"),
    ],
)
def test_a_limit_for_each_key_holds_for_all_without_one_together(
    triton: FakeTriton, limits: dict[str, Any], reason: str, words: str
) -> None:
    triton.script = Script([tone(), Hang()])

    with RunningService(triton, **limits) as service:
        with service.client.stream("POST", SPEECH, json=SAID):
            answer = service.say()

        assert answer.status_code == 429
        assert answer.json()["error"]["code"] == "rate_limit_exceeded"
        assert words in answer.json()["error"]["message"]
        assert 0 < int(answer.headers["retry-after-ms"]) <= 60_000
        assert_ended(service, triton, rejected=1, cancelled=1)
        assert metrics(service)["speech_requests_refused_total", reason] == 1


def test_openais_sdk_waits_as_long_as_it_is_told_and_comes_back(triton: FakeTriton) -> None:
    """It does so without `x-should-retry`, so the service sends none with a 429."""
    triton.script = Script([tone(), Hang()])
    limits = {"max_concurrent_requests": 1, "max_waiting_requests": 0}

    with (
        RunningService(triton, **limits) as service,
        openai.OpenAI(base_url=f"{service.base_url}/v1", api_key="x", max_retries=1) as sdk,
    ):
        with (
            service.client.stream("POST", SPEECH, json=SAID),
            pytest.raises(openai.RateLimitError, match="SPEECH_MAX_WAITING_REQUESTS"),
        ):
            sdk.audio.speech.create(**SAID)

        assert_ended(service, triton, rejected=2, cancelled=1)
