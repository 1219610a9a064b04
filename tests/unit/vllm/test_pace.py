from __future__ import annotations

from contextlib import ExitStack

import pytest

from fakes.spark import FakeClock
from speech_backend.vllm_engine.pace import FIRST_SOUND_IDS, MAX_PAUSE_SECONDS, Pacer


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def pacer(clock: FakeClock) -> Pacer:
    return Pacer(clock)


def test_who_waits_for_the_first_sound_alone_gets_each_id_at_once(pacer: Pacer) -> None:
    with pacer.request() as pace:
        assert {pace.pause_seconds(1) for _ in range(FIRST_SOUND_IDS - 1)} == {0.001}


def test_many_who_wait_share_the_messages(pacer: Pacer) -> None:
    with ExitStack() as stack:
        paces = [stack.enter_context(pacer.request()) for _ in range(64)]

        assert {pace.pause_seconds(1) for pace in paces} == {0.064}


def test_those_who_hear_do_not_slow_those_who_wait(pacer: Pacer) -> None:
    with ExitStack() as stack:
        for _ in range(63):
            stack.enter_context(pacer.request()).pause_seconds(FIRST_SOUND_IDS)
        waiting = stack.enter_context(pacer.request())

        assert waiting.pause_seconds(1) == 0.001


def test_a_listener_who_is_far_ahead_gets_messages_now_and_then(
    pacer: Pacer, clock: FakeClock
) -> None:
    with pacer.request() as pace:
        pace.pause_seconds(50)
        clock.now += 0.5

        assert pace.pause_seconds(450) == MAX_PAUSE_SECONDS


def test_many_listeners_who_are_far_ahead_share_fewer_messages(
    pacer: Pacer, clock: FakeClock
) -> None:
    with ExitStack() as stack:
        paces = [stack.enter_context(pacer.request()) for _ in range(60)]
        for pace in paces:
            pace.pause_seconds(FIRST_SOUND_IDS)

        assert [pace.pause_seconds(500) for pace in paces[:2]] == [0.2, 0.2]
        clock.now += (500 + FIRST_SOUND_IDS) / 50 - 0.8
        assert paces[0].pause_seconds(0) == pytest.approx(0.1)


def test_a_listener_who_has_little_left_waits_for_an_eighth_of_it(
    pacer: Pacer, clock: FakeClock
) -> None:
    with pacer.request() as pace:
        pace.pause_seconds(100)
        clock.now += 3.6

        assert pace.pause_seconds(100) == pytest.approx((4.0 - 3.6) / 8)


def test_all_who_hear_share_the_messages_even_where_they_have_nothing_left(
    pacer: Pacer, clock: FakeClock
) -> None:
    with ExitStack() as stack:
        paces = [stack.enter_context(pacer.request()) for _ in range(64)]
        for pace in paces:
            pace.pause_seconds(FIRST_SOUND_IDS)
        clock.now += 60

        assert {pace.pause_seconds(1) for pace in paces} == {0.064}


def test_who_knows_what_a_sound_is_made_of_is_heard_from_then_on(
    pacer: Pacer, clock: FakeClock
) -> None:
    with pacer.request(79) as pace:
        assert [pace.missing(ids) for ids in (1, 78, 79, 90)] == [78, 1, 0, 0]

        # Of the ids that it had, the listener has hardly heard any yet.
        assert pace.pause_seconds(79) == 0.001
        assert pace.missing(0) == 0
        clock.now += 0.25
        assert pace.pause_seconds(40) == pytest.approx((0.8 - 0.25) / 8)


def test_a_request_that_has_ended_takes_no_share(pacer: Pacer) -> None:
    with pacer.request() as pace:
        with pacer.request():
            assert pace.pause_seconds(1) == 0.002
        assert pace.pause_seconds(1) == 0.001
