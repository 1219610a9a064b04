"""A run level by level, in virtual time, against a scripted target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fakes.clock import in_virtual_time
from fakes.target import FakeTarget
from fakes.triton import tone
from gateway.audio.pcm import to_s16le
from gateway.backend.statistics import STAGES, Duration, ModelStatistics, ReplicaStatistics
from gateway.bench.load import TargetError
from gateway.bench.measure import Ear, Measured, measure
from gateway.bench.requests import BenchError, Habits, Take, Utterance
from gateway.bench.run import Plan, Run, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

UTTERANCES = [Utterance("a", "One.")]
HALF_A_SECOND = to_s16le(tone(12_000))


class Watched:
    """Keeps what a run tells of itself."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int | None]] = []
        self.requests: list[Measured] = []

    def begin(self, step: Step, total: int | None) -> None:
        self.begun.append((step.name, total))

    def ended(self, measured: Measured) -> None:
        self.requests.append(measured)


class Outcome:
    """Runs a plan; `script` is what the target does with a request at that moment."""

    def __init__(
        self,
        plan: Plan,
        script: Callable[[float], Sequence[Any]] = lambda _: [0.25, HALF_A_SECOND, 0.25],
        ask: Any = None,
    ) -> None:
        self.watched = Watched()

        async def run(clock: Callable[[], float]) -> None:
            self.target = FakeTarget(script, clock)
            self.run = Run(plan, self.target, _measured, self.watched, ask, clock)
            await self.run.levels_in_turn()

        in_virtual_time(run)


async def _measured(take: Take, level: str, started: float) -> Measured:
    return measure(take, level, started, Ear())


def test_each_level_has_its_own_figures() -> None:
    plan = Plan(UTTERANCES, [Step(concurrency=1, requests=4), Step(concurrency=3, requests=12)])

    outcome = Outcome(plan)

    one, three = outcome.run.levels
    assert outcome.watched.begun == [("c1", 4), ("c3", 12)]
    assert (one.name, one.requests, one.ok, one.most_running) == ("c1", 4, 4, 1)
    assert (three.name, three.requests, three.ok, three.most_running) == ("c3", 12, 12, 3)
    assert one.wall_seconds == three.wall_seconds == 2.0
    assert one.audio_seconds_per_second == pytest.approx(1.0)
    assert three.audio_seconds_per_second == pytest.approx(3.0)
    assert three.requests_per_second == pytest.approx(6.0)
    assert three.mean_running == pytest.approx(3.0)
    first, total = (one.distributions[name] for name in ("first_audible_seconds", "total_seconds"))
    assert first is not None
    assert total is not None
    assert (first.p50, total.p99, total.count) == (0.25, 0.5, 4)


def test_the_warm_up_is_discarded() -> None:
    def cold_at_first(at: float) -> list[Any]:
        return [9.0 if at == 0 else 0.25, HALF_A_SECOND]

    outcome = Outcome(Plan(UTTERANCES, [Step(concurrency=2, requests=4)]), cold_at_first)

    [level] = outcome.run.levels
    total = level.distributions["total_seconds"]
    assert total is not None
    assert len(outcome.target.started_seconds) == 2 + 4
    assert (level.requests, total.max) == (4, 0.25)


def test_without_a_warm_up_the_first_request_counts() -> None:
    outcome = Outcome(Plan(UTTERANCES, [Step(concurrency=2, requests=4)], warm_up=0))

    assert len(outcome.target.started_seconds) == 4


def test_where_nothing_works_the_run_ends_with_the_reason() -> None:
    plan = Plan(UTTERANCES, [Step(concurrency=2, requests=100)])

    with pytest.raises(BenchError, match=r"2 requests to warm up c2 failed.*HTTP 401: no key"):
        Outcome(plan, lambda _: [TargetError("HTTP 401", "no key")])


def test_failures_are_counted_by_kind_with_an_example() -> None:
    def fails_later(at: float) -> list[Any]:
        return [0.1, TargetError("HTTP 500", f"at {at:.1f}") if at > 0.55 else HALF_A_SECOND]

    plan = Plan(UTTERANCES, [Step(concurrency=1, requests=10)], warm_up=0)
    [level] = Outcome(plan, fails_later).run.levels

    assert (level.ok, level.failures, level.examples) == (
        *(6, {"HTTP 500": 4}),
        {"HTTP 500": "at 0.6"},
    )


def test_a_duration_ends_a_level_and_lets_the_last_finish() -> None:
    plan = Plan(UTTERANCES, [Step(concurrency=2, seconds=1.75)], warm_up=0)

    [level] = Outcome(plan).run.levels

    assert level.requests == 8
    assert level.wall_seconds == 2.0


def test_an_open_loop_runs_for_its_time_at_its_rate() -> None:
    plan = Plan(UTTERANCES, [Step(rate=20, seconds=100)], Habits(seed=1), warm_up=0)

    outcome = Outcome(plan)

    [level] = outcome.run.levels
    assert outcome.watched.begun == [("r20", level.requests)]
    assert level.requests == pytest.approx(2000, rel=0.1)
    assert level.mean_running == pytest.approx(20 * 0.5, rel=0.1)


def test_those_who_hang_up_or_read_slowly_are_in_no_distribution() -> None:
    habits = Habits(hang_up_share=0.4, hang_up_seconds=0.6, slow_share=0.2)
    plan = Plan(UTTERANCES, [Step(concurrency=4, requests=100)], habits, warm_up=0)

    outcome = Outcome(plan)

    [level] = outcome.run.levels
    plain = [one for one in outcome.watched.requests if one.manner == "listens"]
    total = level.distributions["total_seconds"]
    assert total is not None
    assert (total.count, total.max) == (len(plain), pytest.approx(0.5))
    assert 20 < len(plain) < 60
    assert level.hung_up == sum(one.outcome == "hung up" for one in outcome.watched.requests) > 0
    assert level.ok + level.hung_up == 100


def statistics(requests: int, seconds: float = 0.1) -> ReplicaStatistics:
    stages = {stage: Duration(requests, requests * seconds) for stage in STAGES}
    stages["fail"] = Duration(0, 0)
    model = ModelStatistics("hibari", "1", None, requests, requests, stages)
    return ReplicaStatistics(is_ready=True, version="", models=(model,), states=())


def test_tritons_statistics_are_those_of_the_level_alone() -> None:
    started: list[float] = []
    asked: list[int] = []

    def script(at: float) -> list[Any]:
        started.append(at)
        return [0.1, HALF_A_SECOND]

    async def ask() -> ReplicaStatistics:
        asked.append(len(started))
        return statistics(len(started))

    run = Outcome(Plan(UTTERANCES, [Step(concurrency=2, requests=6)]), script, ask).run

    assert asked == [2, 8]
    assert run.levels[0].triton["hibari"]["requests"] == 6
    assert run.levels[0].triton["hibari"]["mean_seconds"]["queue"] == pytest.approx(0.1)
