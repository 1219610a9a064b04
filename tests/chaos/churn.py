"""Twenty Tritons that appear and vanish while others speak: what the service keeps of them.

`python tests/chaos/churn.py` does so for ten minutes, and ends with 1 if anything is kept. The
Tritons are fakes in this process, so that tasks and channels of the service can be counted.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])

import grpc.aio

from fakes.replicas import FAST
from fakes.service import RunningService
from fakes.triton import FakeTriton
from gateway.__main__ import YOUNG_OBJECTS

if TYPE_CHECKING:
    from collections.abc import Iterator

REPLICAS = 20
TRITONS = 4
CLIENTS = 4
SETTLE_SECONDS = 20.0
SETTINGS = {**FAST, "statistics_interval_seconds": 0.2, "connect_timeout_seconds": 0.5}


@dataclass(frozen=True, slots=True)
class Held:
    """What the service holds: where nothing leaks, it is no more for the same Tritons."""

    channels: int
    tasks: int
    files: int
    threads: int
    series: int

    def __le__(self, other: Held) -> bool:
        """Whether nothing is more."""
        return all(mine <= its for mine, its in zip(astuple(self), astuple(other), strict=True))

    def least(self, other: Held) -> Held:
        """Return the smaller of each."""
        return Held(*map(min, astuple(self), astuple(other)))


class Churn:
    """A service whose file names other Tritons in each round; `with` it.

    All of them lead to a few fakes, or to an address where nobody is. The collector looks no more
    often than in the service, since what only it finds is held for minutes there.
    """

    def __init__(self, folder: Path, seed: int = 1) -> None:
        self.answers: Counter[int] = Counter()
        self._random = random.Random(seed)
        self._file = folder / "tritons.json"
        self._numbers = itertools.count()
        self._stack = ExitStack()
        self._is_over = threading.Event()

    def __enter__(self) -> Churn:  # noqa: PYI034  Self needs Python 3.11
        self._stack.callback(gc.set_threshold, *gc.get_threshold())
        gc.collect()
        gc.set_threshold(YOUNG_OBJECTS)
        tritons = [self._stack.enter_context(FakeTriton()) for _ in range(TRITONS)]
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            dead = f"127.0.0.1:{nobody.getsockname()[1]}"
        self._steady = {f"steady-{n}": triton.address for n, triton in enumerate(tritons)}
        self._addresses = [*self._steady.values(), dead]
        self._write(self._steady)
        service = RunningService(f"file://{self._file}", **SETTINGS)
        self._service = self._stack.enter_context(service)
        self.settle(self._steady)
        self._wait_shown()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def held(self, before: Held | None = None) -> Held:
        """Return the least that is held with the Tritons of the beginning, in a second.

        With what was held `before`, only what is held for SETTLE_SECONDS counts: probes and
        connections under way end soon, each in its own time, and a leak does not.
        """
        self._write(self._steady)
        self.settle(self._steady)
        until = time.monotonic() + (SETTLE_SECONDS if before else 1.0)
        least = self._count()
        while time.monotonic() < until and (before is None or not least <= before):
            least = least.least(self._count())
        return least

    def rounds(self) -> Iterator[int]:
        """Bring and take away some Tritons in each round, under load; yield its number."""
        clients = [threading.Thread(target=self._ask_on) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        try:
            there = dict(self._steady)
            for number in itertools.count():
                there = self._another(there)
                self._write(there)
                self.settle(there)
                yield number
        finally:
            self._is_over.set()
            for client in clients:
                client.join()
            self._is_over.clear()

    def settle(self, wanted: dict[str, str]) -> None:
        """Return once the service knows of these and no others."""
        until = time.monotonic() + SETTLE_SECONDS
        while self._service.replicas().keys() != wanted.keys():
            assert time.monotonic() < until, self._service.replicas()

    def _wait_shown(self) -> None:
        """Return once /metrics has all of each of the first Tritons: their own figures, too."""
        until = time.monotonic() + SETTLE_SECONDS
        shown = 0.0
        while shown < TRITONS:
            assert time.monotonic() < until, shown
            shown = sum(s.value for s in self._service.samples() if s.name == "triton_up")

    def _another(self, there: dict[str, str]) -> dict[str, str]:
        """Return at most REPLICAS: some of these and some that are new.

        The first is always among them: where all are exchanged at once, 503 may be right.
        """
        count = self._random.randint(1, REPLICAS)
        kept = self._random.sample(sorted(there), min(count, self._random.randrange(len(there))))
        new = [f"replica-{next(self._numbers)}" for _ in range(count - len(kept))]
        chosen = {name: self._random.choice(self._addresses) for name in new}
        first = next(iter(self._steady))
        return {name: there[name] for name in kept} | chosen | {first: self._steady[first]}

    def _write(self, entries: dict[str, str]) -> None:
        # By metadata they are several Tritons, though they lead to the same few.
        replica = [
            {"id": name, "address": address, "metadata": {"name": name}}
            for name, address in entries.items()
        ]
        beside = self._file.with_suffix(".new")
        beside.write_text(json.dumps({"replica": replica}), "utf-8")
        beside.replace(self._file)

    def _ask_on(self) -> None:
        while not self._is_over.is_set():
            self.answers[self._service.say().status_code] += 1

    def _count(self) -> Held:
        channels = sum(isinstance(thing, grpc.aio.Channel) for thing in gc.get_objects())
        series = {(s.name, *sorted(s.labels.items())) for s in self._service.samples()}
        return Held(
            channels=channels,
            tasks=self._service.in_loop(_tasks()),
            files=sum(1 for _ in Path("/proc/self/fd").iterdir()),
            threads=threading.active_count(),
            series=len(series),
        )


async def _tasks() -> int:
    return len(asyncio.all_tasks())


def main() -> int:
    """Go on for as long as asked; return 1 where something was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Churn(Path(folder)) as churn:
        before = churn.held()
        until = time.monotonic() + options.seconds
        rounds = churn.rounds()
        done = next(number for number in rounds if time.monotonic() > until)
        rounds.close()
        after = churn.held(before)
        print(f"{done} rounds, {dict(churn.answers)}\nbefore {before}\nafter  {after}")
    return 0 if after <= before and set(churn.answers) == {200} else 1


if __name__ == "__main__":
    sys.exit(main())
