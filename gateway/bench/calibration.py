"""`speech-gateway bench --calibrate`: finds out whether the tool finds what is known.

The truth is the scripted server's own log of when each piece left: it runs on the same machine,
in a process of its own, and shares the clock.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
import numpy as np

from gateway.bench.http_target import HttpTarget
from gateway.bench.load import Load
from gateway.bench.measure import Ear, measure
from gateway.bench.requests import Habits, Request, Utterance, arrivals, requests

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from gateway.bench.measure import Measured

TOLERANCE_SECONDS = 0.002
LATE_SECONDS = 0.005
"""An event loop's timers have steps of 1 ms; being late counts as the listener's waiting."""
SLOW_SECONDS = 0.1
BUFFER_SECONDS = 0.1
MANY_STREAMS = 300
MOST_CPU = 0.7
_WARM_UP = Request(0, Utterance("warm", json.dumps({"id": "warm", "steps": [["tone", 0.1]]})))


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was known beforehand, and what the tool made of it."""

    what: str
    known: str
    found: str
    is_right: bool


@dataclass(frozen=True, slots=True)
class Trial:
    """What was measured of some scripted requests, and the server's log of them."""

    measured: Sequence[Measured]
    log: dict[str, Any]
    origin_seconds: float
    cpu_share: float

    def errors(self, figure: str, piece: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return a moment as measured less when that piece left, for each request."""
        return np.array(
            [
                self.origin_seconds + one.scheduled_seconds + getattr(one, figure) - left[piece]
                for one in self.measured
                if len(left := self.log[one.utterance]["left"]) > piece
            ]
        )


async def calibrate(streams: int = MANY_STREAMS) -> list[Check]:
    """Return the checks; takes some 15 seconds."""
    with scripted_server() as url:
        return [
            *await check_moments(url),
            *await check_stalls(url),
            *await check_pause(url),
            await check_hang_ups(url),
            await check_failures(url),
            *await check_many(url, streams),
        ]


@contextmanager
def scripted_server() -> Generator[str, None, None]:
    """Run the server in a process of its own and give its base URL."""
    command = [sys.executable, "-I", "-m", "gateway.bench.scripted_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = "" if process.stdout is None else process.stdout.readline().strip()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


async def try_out(
    url: str,
    scripts: Iterable[Sequence[Sequence[Any]]],
    *,
    concurrency: int = 4,
    rate: float | None = None,
    habits: Habits | None = None,
) -> Trial:
    """Send a request for each script of steps, and measure."""
    habits = habits or Habits()
    prefix = f"{time.monotonic_ns()}-"
    utterances = [
        Utterance(f"{prefix}{n}", json.dumps({"id": f"{prefix}{n}", "steps": steps}))
        for n, steps in enumerate(scripts)
    ]
    takes: list[Any] = []
    target = HttpTarget(url, "pcm", {"model": "scripted", "voice": "sine"})
    load = Load(target, habits.timeout_seconds, takes.append)
    wanted = [r for r, _ in zip(requests(utterances, habits), utterances, strict=False)]
    try:
        # First requests pay for connections, and for the tool's own first time.
        await Load(target, 10.0, lambda _: None).closed([_WARM_UP] * concurrency, concurrency)
        cpu, started = time.process_time(), time.monotonic()
        if rate is None:
            await load.closed(wanted, concurrency)
        else:
            await load.open(wanted, arrivals(rate, habits.seed, len(wanted), None))
    finally:
        await target.aclose()
    share = (time.process_time() - cpu) / (time.monotonic() - started)
    ear = Ear(buffer_seconds=BUFFER_SECONDS)
    measured = [measure(take, "trial", started, ear) for take in takes]
    # A moment for the server to see who has left.
    await asyncio.sleep(0.1)
    async with aiohttp.ClientSession() as session, session.get(f"{url}/log") as answer:
        log = await answer.json()
    return Trial(measured, log, started, share)


async def check_moments(url: str) -> list[Check]:
    """Compare when the first byte and the first sound came with when they left."""
    delays = [0.02, 0.05, 0.1, 0.2] * 10
    scripts = [
        [["wait", delay], ["silence", 0.1], ["wait", 0.05], ["tone", 0.2]] for delay in delays
    ]
    trial = await try_out(url, scripts)
    seconds = {one.audio_seconds for one in trial.measured}
    return [
        within("first byte", trial.errors("first_byte_seconds", 0)),
        within("first audible sample", trial.errors("first_audible_seconds", 1)),
        Check("seconds of audio", "0.3", str(seconds), seconds == {0.3}),
    ]


async def check_stalls(url: str) -> list[Check]:
    """Let the server speak for 0.2 s, be silent for 0.5, speak again."""
    trial = await try_out(url, [[["tone", 0.2], ["wait", 0.5], ["tone", 0.2]]] * 20, concurrency=20)
    truth = [np.diff(trial.log[one.utterance]["left"])[0] for one in trial.measured]
    stalled = np.array([one.stalled_seconds for one in trial.measured])
    gaps = np.array([one.max_gap_seconds for one in trial.measured])
    underruns = sum(one.underruns for one in trial.measured)
    return [
        Check("underruns", "20", str(underruns), underruns == 20),  # noqa: PLR2004
        within("stalled seconds", stalled - (np.array(truth) - 0.2 - BUFFER_SECONDS)),
        within("gap between pieces", gaps - np.array(truth)),
    ]


async def check_pause(url: str) -> list[Check]:
    """Let the server stand still from 1.0 s to 1.5 s; all who arrive then have to see it."""
    rate, count = 100.0, 250
    steps = [["freeze", 1.0, 0.5], ["tone", 0.05]]
    trial = await try_out(url, [steps] * count, rate=rate)
    waited = np.array([one.first_byte_seconds for one in trial.measured])
    moments = arrivals(rate, Habits().seed, count, None)
    # The pause counts from the first arrival.
    known = sum(1.0 <= at - moments[0] < 1.5 - SLOW_SECONDS for at in moments)
    slow = int((waited > SLOW_SECONDS).sum())
    lag = np.array([one.send_lag_seconds for one in trial.measured])
    return [
        Check(
            "requests that a pause of 0.5 s kept waiting (open loop)",
            f"{known} longer than {SLOW_SECONDS} s, the longest some 0.5 s",
            f"{slow}, the longest {waited.max():.3f} s",
            abs(slow - known) <= 2,  # noqa: PLR2004  those at its edge
        ),
        within("sent later than scheduled", lag, LATE_SECONDS),
    ]


async def check_hang_ups(url: str) -> Check:
    """Count those who left, on both sides."""
    habits = Habits(hang_up_share=0.5, hang_up_seconds=0.4)
    trial = await try_out(
        url, [[["tone", 0.1], ["wait", 0.4], ["tone", 0.1]]] * 60, concurrency=20, habits=habits
    )
    told = sum(one.outcome == "hung up" for one in trial.measured)
    gone = sum(trial.log.get(one.utterance, {}).get("ended") == "gone" for one in trial.measured)
    # Who hung up before the request had arrived was never there for the server.
    never = sum(one.utterance not in trial.log for one in trial.measured)
    return Check("listeners that hung up", str(gone + never), str(told), told == gone + never > 0)


async def check_failures(url: str) -> Check:
    """Let the server fail in every way."""
    known = {"HTTP 429": 3, "HTTP 500": 2, "cut": 4, "no audio": 2, "silent": 5, "undecodable": 1}
    scripts: list[Any] = [
        *([[["status", 429]]] * 3),
        *([[["status", 500]]] * 2),
        *([[["tone", 0.1], ["cut"]]] * 4),
        *([[]] * 2),
        *([[["silence", 0.5]]] * 5),
        [["bytes", "odd"]],
        *([[["tone", 0.1]]] * 6),
    ]
    trial = await try_out(url, scripts)
    outcomes = [one.outcome for one in trial.measured]
    found = {kind: outcomes.count(kind) for kind in dict.fromkeys(outcomes) if kind != "ok"}
    return Check("failures by kind", str(known), str(found), found == known)


async def check_many(url: str, streams: int) -> list[Check]:
    """Let many streams speak for two seconds, in pieces of 0.1 s, as fast as they are played."""
    speech = [["tone", 0.1], ["wait", 0.1]] * 20
    scripts = [[["wait", 1.0 + 0.1 * n / streams], *speech] for n in range(streams)]
    trial = await try_out(url, scripts, concurrency=streams)
    share = trial.cpu_share
    return [
        within(f"first byte of {streams} streams at once", trial.errors("first_byte_seconds", 0)),
        Check(
            f"the tool's own work for {streams} streams",
            f"less than {MOST_CPU:.0%} of a core",
            f"{share:.0%}",
            share < MOST_CPU,
        ),
    ]


def within(
    what: str,
    errors: np.ndarray[Any, np.dtype[np.float64]],
    tolerance_seconds: float = TOLERANCE_SECONDS,
) -> Check:
    """Nine in ten must be within the tolerance: the machine itself is late now and then."""
    p50, p90 = np.percentile(np.abs(errors), [50, 90])
    worst = np.abs(errors).max()
    return Check(
        what,
        f"nine in ten (p90) within {tolerance_seconds * 1e3:g} ms",
        f"p50 {p50 * 1e3:.2f}, p90 {p90 * 1e3:.2f}, worst {worst * 1e3:.2f} ms of {len(errors)}",
        bool(p90 <= tolerance_seconds),
    )
