"""The load generator in virtual time: who is sent when, and what is noted of it."""

from __future__ import annotations

import statistics
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import pytest

from fakes.clock import in_virtual_time
from fakes.target import FakeTarget
from gateway.bench.load import Load, TargetError
from gateway.bench.requests import Habits, Request, Take, Utterance, arrivals, requests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

UTTERANCES = [Utterance("a", "One."), Utterance("b", "Two.")]


def take_all(
    script: Callable[[float], Sequence[float | bytes | TargetError]],
    wanted: Sequence[Request],
    *,
    concurrency: int | None = None,
    moments: Sequence[float] = (),
    timeout_seconds: float = 100,
) -> tuple[list[Take], FakeTarget]:
    """Load a target that answers by `script`, in virtual time."""
    takes: list[Take] = []

    async def run(clock: Callable[[], float]) -> FakeTarget:
        target = FakeTarget(script, clock)
        load = Load(target, timeout_seconds, takes.append, clock)
        if concurrency is None:
            await load.open(wanted, moments)
        else:
            await load.closed(wanted, concurrency)
        return target

    return takes, in_virtual_time(run)


def some(count: int, **habits: float) -> list[Request]:
    return list(islice(requests(UTTERANCES, Habits(**habits)), count))


def test_a_closed_loop_keeps_as_many_running_as_it_says() -> None:
    takes, target = take_all(lambda _: [1.0, b"x"], some(10), concurrency=3)

    assert target.most_running == 3
    assert target.started_seconds == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert [take.ended_seconds - take.sent_seconds for take in takes] == [1.0] * 10


def test_slow_answers_never_delay_the_next_arrival() -> None:
    moments = arrivals(20, seed=1, count=100, seconds=None)

    takes, target = take_all(lambda _: [50.0, b"x"], some(100), moments=moments)

    assert target.started_seconds == pytest.approx(moments)
    assert [take.sent_seconds for take in takes] == pytest.approx(moments)
    assert target.most_running == 100


def test_a_pause_of_the_server_is_seen_by_all_who_came_in_it() -> None:
    """Coordinated omission would leave one slow request; an open loop has all of them."""

    def freezes_from_1_to_2(at: float) -> list[float | bytes]:
        return [2.0 - at if 1.0 <= at < 2.0 else 0.01, b"x"]

    moments = [index / 50 for index in range(150)]

    takes, _ = take_all(freezes_from_1_to_2, some(150), moments=moments)

    seconds = {t.scheduled_seconds: t.pieces[0][0] - t.scheduled_seconds for t in takes}
    assert sum(value > 0.11 for value in seconds.values()) == 45
    assert max(seconds.values()) == pytest.approx(1.0)
    # A closed loop of one client meets the same pause once: this is what it would have hidden.
    takes, _ = take_all(freezes_from_1_to_2, some(150), concurrency=1)
    assert sum(take.ended_seconds - take.sent_seconds > 0.1 for take in takes) == 1


def test_time_counts_from_the_schedule_even_if_the_sender_is_late() -> None:
    """The first moment is past when the loop gets to it, as on a machine that is too slow."""
    takes, _ = take_all(lambda _: [0.2, b"x"], some(1), moments=[-0.5])

    [take] = takes
    assert take.scheduled_seconds == -0.5
    assert take.sent_seconds == 0.0
    assert take.pieces[0][0] - take.scheduled_seconds == pytest.approx(0.7)


def test_each_piece_has_its_moment() -> None:
    [take], _ = take_all(lambda _: [0.1, b"one", 0.25, b"two", 0.5], some(1), concurrency=1)

    assert take.pieces == [(0.1, b"one"), (0.35, b"two")]
    assert take.ended_seconds == 0.85
    assert take.outcome == "ok"


def test_a_failure_is_noted_with_its_kind_and_the_others_go_on() -> None:
    def every_second_fails(at: float) -> list[float | bytes | TargetError]:
        return [1.0, TargetError("HTTP 500", "no luck") if int(at) % 2 else b"x"]

    takes, _ = take_all(every_second_fails, some(4), concurrency=1)

    assert [take.outcome for take in takes] == ["ok", "HTTP 500"] * 2
    assert takes[1].detail == "no luck"


def test_who_waits_too_long_gives_up() -> None:
    [take], target = take_all(
        lambda _: [1.0, b"x", 99.0], some(1), concurrency=1, timeout_seconds=3
    )

    assert (take.outcome, take.ended_seconds, len(take.pieces)) == ("timeout", 3.0, 1)
    assert target.left == 1


def test_those_who_hang_up_leave_at_their_moment() -> None:
    wanted = some(40, hang_up_share=0.5, hang_up_seconds=4.0)

    takes, target = take_all(lambda _: [1.0, b"x", 1.0, b"y"], wanted, concurrency=40)

    planned = [request for request in wanted if request.manner == "hangs up"]
    left = [take for take in takes if take.outcome == "hung up"]
    assert 0 < len(left) < len(planned) < 30
    assert target.left == len(left)
    for take in left:
        assert take.ended_seconds - take.sent_seconds == take.request.hang_up_seconds
    assert {take.outcome for take in takes if take.request.manner == "listens"} == {"ok"}


def test_a_slow_reader_takes_so_many_bytes_a_second() -> None:
    wanted = some(1, slow_share=1.0, slow_bytes_per_second=100.0)

    [take], _ = take_all(lambda _: [bytes(50), bytes(50), b""], wanted, concurrency=1)

    assert [at for at, _ in take.pieces] == [0.0, 0.5, 1.0]
    assert take.request.manner == "reads slowly"


def test_arrivals_are_poissons() -> None:
    moments = arrivals(10, seed=3, count=20_000, seconds=None)

    waits = [b - a for a, b in pairwise(moments)]
    assert statistics.mean(waits) == pytest.approx(0.1, rel=0.03)
    assert statistics.stdev(waits) == pytest.approx(0.1, rel=0.03)
    assert moments == arrivals(10, seed=3, count=20_000, seconds=None)
    assert moments != arrivals(10, seed=4, count=20_000, seconds=None)


def test_a_duration_ends_the_arrivals() -> None:
    moments = arrivals(10, seed=3, count=None, seconds=5)

    assert moments[-1] < 5
    assert moments == arrivals(10, seed=3, count=1000, seconds=None)[: len(moments)]


def test_shares_do_not_change_what_the_seed_gives_to_others() -> None:
    some_leave = some(200, hang_up_share=0.2)
    more_leave = some(200, hang_up_share=0.4)

    leaving = [
        {r.number for r in given if r.manner == "hangs up"} for given in (some_leave, more_leave)
    ]
    assert leaving[0] < leaving[1]
    assert [request.utterance.id for request in some_leave[:3]] == ["a", "b", "a"]
