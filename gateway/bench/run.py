"""A run: level after level, each warmed up, loaded, measured and summed up."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Protocol

from gateway.bench.load import Load
from gateway.bench.requests import BenchError, Habits, arrivals, requests
from gateway.bench.stages import difference
from gateway.bench.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from gateway.backend.statistics import ReplicaStatistics
    from gateway.bench.load import Target
    from gateway.bench.measure import Measured
    from gateway.bench.requests import Request, Take, Utterance
    from gateway.bench.summary import Level

WARM_UP_CLIENTS = 4
"""How many warm an open loop up, which has no concurrency of its own."""


@dataclass(frozen=True, slots=True)
class Step:
    """One level: so many clients in turn, or so many arrivals a second; for how long."""

    concurrency: int | None = None
    rate: float | None = None
    requests: int | None = None
    seconds: float | None = None

    @property
    def name(self) -> str:
        """A short name, fit for a file."""
        return f"c{self.concurrency}" if self.rate is None else f"r{self.rate:g}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send, and how; `warm_up` requests (None: one for each client) go before a level."""

    utterances: Sequence[Utterance]
    steps: Sequence[Step]
    habits: Habits = field(default_factory=Habits)
    warm_up: int | None = None


class Watcher(Protocol):
    """Whoever wants to see the run go on."""

    def begin(self, step: Step, total: int | None) -> None:
        """Note that a level begins, of `total` requests if that is known."""

    def ended(self, measured: Measured) -> None:
        """Note that a request has ended and is measured."""


class Run:
    """Loads the target and collects `levels`; those that are complete are there at any time.

    `measure` is given a Take, its level's name and beginning; decoding must not keep the event
    loop, which notes the moments. `ask` gives Triton's statistics, where there is a Triton to ask.
    """

    def __init__(
        self,
        plan: Plan,
        target: Target,
        measure: Callable[[Take, str, float], Awaitable[Measured]],
        watcher: Watcher,
        ask: Callable[[], Awaitable[ReplicaStatistics]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.levels: list[Level] = []
        self._plan = plan
        self._target = target
        self._measure = measure
        self._watcher = watcher
        self._ask = ask
        self._clock = clock

    async def levels_in_turn(self) -> None:
        """Run all levels; raises BenchError where nothing works at all."""
        for step in self._plan.steps:
            await self._warm_up(step)
            self.levels.append(await self._level(step))

    async def _warm_up(self, step: Step) -> None:
        clients = step.concurrency or WARM_UP_CLIENTS
        count = clients if self._plan.warm_up is None else self._plan.warm_up
        takes: list[Take] = []
        wanted = requests(self._plan.utterances, Habits())
        await self._load(takes.append).closed(islice(wanted, count), clients)
        if takes and all(take.outcome != "ok" for take in takes):
            raise BenchError(
                f"all {count} requests to warm up {step.name} failed; the last: "
                f"{takes[-1].outcome}: {takes[-1].detail}"
            )

    async def _level(self, step: Step) -> Level:
        before = await self._statistics()
        started = self._clock()
        measuring: list[asyncio.Task[Measured]] = []

        def ended(take: Take) -> None:
            measuring.append(asyncio.ensure_future(self._measured(take, step.name, started)))

        await self._send(step, self._load(ended))
        after = await self._statistics()
        measured = await asyncio.gather(*measuring)
        if not measured:
            raise BenchError(f"no request was due within {step.seconds} s at {step.rate} a second")
        level = summarise(step.name, measured, concurrency=step.concurrency, rate=step.rate)
        if before is None or after is None:
            return level
        triton, notes = difference(before, after)
        return replace(level, triton=triton, triton_notes=notes)

    async def _send(self, step: Step, load: Load) -> None:
        wanted = requests(self._plan.utterances, self._plan.habits)
        if step.rate is None:
            self._watcher.begin(step, step.requests)
            await load.closed(self._until(step, wanted), step.concurrency or 1)
            return
        moments = arrivals(step.rate, self._plan.habits.seed, step.requests, step.seconds)
        self._watcher.begin(step, len(moments))
        await load.open(wanted, moments)

    def _load(self, ended: Callable[[Take], None]) -> Load:
        return Load(self._target, self._plan.habits.timeout_seconds, ended, self._clock)

    async def _measured(self, take: Take, level: str, started: float) -> Measured:
        measured = await self._measure(take, level, started)
        self._watcher.ended(measured)
        return measured

    async def _statistics(self) -> ReplicaStatistics | None:
        return None if self._ask is None else await self._ask()

    def _until(self, step: Step, wanted: Iterator[Request]) -> Iterator[Request]:
        """Return as many requests as the step has, or those that can begin within its time."""
        if step.seconds is not None:
            end = self._clock() + step.seconds
            wanted = takewhile(lambda _: self._clock() < end, wanted)
        return islice(wanted, step.requests)
