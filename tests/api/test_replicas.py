"""Several Tritons: who gets a call, and what another does that one cannot."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any, TypeAlias

import httpx
import pytest

from fakes.replicas import FULL, GOING, GONE, LOST, serve, wait_ready
from fakes.service import message_of
from fakes.triton import Fail, FakeTriton, Gate, Hang, Script, tone

Pair: TypeAlias = tuple[FakeTriton, FakeTriton]
RARE = {"probe_interval_seconds": 600.0}


def test_requests_are_spread_over_all(pair: Pair) -> None:
    with serve(*pair) as service, ThreadPoolExecutor(16) as pool:
        wait_ready(service, *pair)
        answers = list(pool.map(lambda _: service.say(), range(60)))

    assert {answer.status_code for answer in answers} == {200}
    assert min(triton.seen.started.count for triton in pair) >= 10


@pytest.mark.parametrize(
    "steps",
    [[LOST], [GOING], [GONE], [FULL], [Fail("boom")], [Hang()]],
    ids=["lost", "going", "gone", "full", "fails", "hangs"],
)
def test_what_one_cannot_another_does_and_nobody_hears_of_it(pair: Pair, steps: list[Any]) -> None:
    bad, _ = pair
    bad.script = Script(steps)
    answers = []

    with serve(*pair, first_audio_timeout_seconds=0.3, **RARE) as service:
        wait_ready(service, *pair)
        while len(answers) < 12 or not bad.seen.started.count:
            answers.append(service.say())
        assert service.log.ended.wait(len(answers))
        figures = service.figures()

    assert {answer.status_code for answer in answers} == {200}
    assert {len(answer.content) for answer in answers} == {14_400}
    assert figures == {"finished": len(answers), "in_flight": 0}


def test_a_text_that_no_model_can_speak_is_tried_on_two_at_most() -> None:
    """It may be the text that makes them fail, and a third would fail too."""
    with ExitStack() as stack:
        those = [stack.enter_context(FakeTriton(Script([Fail("boom")]))) for _ in range(4)]
        service = stack.enter_context(serve(*those))
        wait_ready(service, *those)
        answer = service.say()

        assert message_of(answer, 502, "backend_failed")
        assert sum(triton.seen.started.count for triton in those) == 2


@pytest.mark.parametrize(
    ("words", "status"),
    [("invalid_input: no words", 400), ("This protocol is restricted", 500)],
)
def test_what_no_other_would_do_better_is_not_tried_again(
    pair: Pair, words: str, status: int
) -> None:
    for triton in pair:
        triton.script = Script([Fail(words)])

    with serve(*pair) as service:
        wait_ready(service, *pair)
        answer = service.say()

    assert answer.status_code == status
    assert sum(triton.seen.started.count for triton in pair) == 1


def test_after_the_first_audio_nothing_is_tried_again(pair: Pair) -> None:
    for triton in pair:
        triton.script = Script([tone(), LOST])

    with serve(*pair) as service:
        wait_ready(service, *pair)
        with pytest.raises(httpx.RemoteProtocolError):
            service.say()

    assert sum(triton.seen.started.count for triton in pair) == 1


def test_full_tritons_are_a_429_and_none_is_ejected(pair: Pair) -> None:
    for triton in pair:
        triton.script = Script([FULL])

    with serve(*pair) as service:
        wait_ready(service, *pair)
        answers = [service.say() for _ in range(12)]
        replicas = service.replicas()

    assert {message_of(answer, 429, "overloaded") for answer in answers}
    assert {(one["state"], one["ejections"]) for one in replicas.values()} == {("ready", 0)}


def test_who_is_tried_again_waits_no_longer_than_at_first(pair: Pair) -> None:
    full, busy = pair
    full.script, busy.script = Script([FULL]), Script([Hang()])
    limits = {"replica_max_streams": 1, "admission_wait_seconds": 0.2}

    with serve(*pair, **limits) as service:
        wait_ready(service, *pair)
        with closing(service.send()):
            assert busy.seen.started.wait()
            answer = service.say()

    assert message_of(answer, 429, "overloaded")
    assert full.seen.started.count


def test_no_one_gets_more_streams_than_it_takes(pair: Pair) -> None:
    gate = Gate()
    for triton in pair:
        triton.script = Script([gate, tone()])

    with (
        serve(*pair, replica_max_streams=2, admission_wait_seconds=0.2) as service,
        ThreadPoolExecutor(8) as pool,
    ):
        wait_ready(service, *pair)
        running = [pool.submit(service.say) for _ in range(4)]
        assert all(triton.seen.started.wait(2) for triton in pair)
        refused = service.say()
        gate.open()
        statuses = {answer.result().status_code for answer in running}

    assert "SPEECH_REPLICA_MAX_STREAMS" in message_of(refused, 429, "overloaded")
    assert statuses == {200}
    assert [triton.seen.most_at_once for triton in pair] == [2, 2]


def test_who_waits_for_a_stream_gets_the_next_that_is_free(triton: FakeTriton) -> None:
    gate = Gate()
    triton.script = Script([gate, tone()])

    with (
        serve(triton, replica_max_streams=1, admission_wait_seconds=9.0) as service,
        ThreadPoolExecutor(3) as pool,
    ):
        running = [pool.submit(service.say) for _ in range(3)]
        assert triton.seen.started.wait()
        service.wait_in_flight(3)
        gate.open()
        statuses = [answer.result().status_code for answer in running]

    assert statuses == [200, 200, 200]
    assert triton.seen.most_at_once == 1


def test_all_segments_of_a_text_go_to_the_same(pair: Pair) -> None:
    text = "This is a sentence of the text. " * 20

    with serve(*pair, segment_characters=40, first_segment_characters=40) as service:
        wait_ready(service, *pair)
        counts = []
        for _ in range(6):
            before = [triton.seen.started.count for triton in pair]
            assert service.say(input=text).status_code == 200
            counts.append(
                [triton.seen.started.count - was for triton, was in zip(pair, before, strict=True)]
            )

    assert all(0 in count and max(count) > 5 for count in counts), counts
