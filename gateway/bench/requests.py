"""What is asked for, and how the one who asks behaves."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Manner: TypeAlias = Literal["listens", "hangs up", "reads slowly"]


class BenchError(Exception):
    """The run is not possible as asked; the message says what was given and what fits."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """A text to speak; where a voice is to be cloned, its recording (a file's bytes) too."""

    id: str
    text: str
    reference: bytes | None = None
    transcript: str = ""


@dataclass(frozen=True, slots=True)
class Habits:
    """How listeners behave; shares are parts of 1, drawn at random by `seed`.

    Those who hang up do so at a moment between the request and `hang_up_seconds` later; slow
    readers take at most `slow_bytes_per_second`. Everyone gives up after `timeout_seconds`.
    """

    hang_up_share: float = 0.0
    hang_up_seconds: float = 2.0
    slow_share: float = 0.0
    slow_bytes_per_second: float = 16_000.0
    timeout_seconds: float = 120.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """One request to make; `hang_up_seconds` after it was sent the listener is gone."""

    number: int
    utterance: Utterance
    manner: Manner = "listens"
    hang_up_seconds: float | None = None
    slow_bytes_per_second: float | None = None


def requests(utterances: Sequence[Utterance], habits: Habits) -> Iterator[Request]:
    """Yield requests without end: the utterances in turn, the same ones for the same seed."""
    dice = random.Random(habits.seed)  # noqa: S311  no secret
    for number, utterance in enumerate(cycle(utterances)):
        # Both are drawn for each, so that one share does not change what the other falls on.
        drawn, moment = dice.random(), dice.uniform(0, habits.hang_up_seconds)
        if drawn < habits.hang_up_share:
            yield Request(number, utterance, "hangs up", hang_up_seconds=moment)
        elif drawn < habits.hang_up_share + habits.slow_share:
            pace = habits.slow_bytes_per_second
            yield Request(number, utterance, "reads slowly", slow_bytes_per_second=pace)
        else:
            yield Request(number, utterance)


def poisson(rate: float, seed: int) -> Iterator[float]:
    """Yield when requests arrive, in seconds from the start: at random, `rate` a second."""
    dice = random.Random(seed)  # noqa: S311
    at = 0.0
    while True:
        at += dice.expovariate(rate)
        yield at


def arrivals(rate: float, seed: int, count: int | None, seconds: float | None) -> list[float]:
    """Return the moments of `count` arrivals, or of all within `seconds`."""
    if seconds is None:
        return list(islice(poisson(rate, seed), count))
    moments: list[float] = []
    for at in poisson(rate, seed):
        if at >= seconds or len(moments) == count:
            break
        moments.append(at)
    return moments


@dataclass(slots=True)
class Take:
    """What is noted of one request while it runs; moments are seconds on the run's clock.

    `outcome` is "ok", "hung up" or the kind of the failure.
    """

    request: Request
    scheduled_seconds: float
    sent_seconds: float
    ended_seconds: float = 0.0
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    sample_rate_hz: int | None = None
    outcome: str = "ok"
    detail: str = ""
