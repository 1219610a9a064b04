"""A player in thought: when would it have begun, and when would it have run dry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUNDING_SECONDS = 1e-6


@dataclass(frozen=True, slots=True)
class Stall:
    """The player was silent for so long, when it had played up to `position_seconds`."""

    position_seconds: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Playback:
    """When the player began, on the clock of the arrivals, and where it ran dry."""

    started_seconds: float
    stalls: tuple[Stall, ...]

    @property
    def stalled_seconds(self) -> float:
        """Silence within the speech, all in all."""
        return sum(stall.seconds for stall in self.stalls)

    def heard_seconds(self, position_seconds: float) -> float:
        """Return when that moment of the speech was heard."""
        before = sum(s.seconds for s in self.stalls if s.position_seconds <= position_seconds)
        return self.started_seconds + position_seconds + before


def play(arrivals: Sequence[tuple[float, float]], buffer_seconds: float) -> Playback:
    """Play what arrives: (moment, seconds of audio that are there from then on), at least one.

    The player begins `buffer_seconds` after the first. When it has played all that has come it
    stalls, and goes on with the next: the model of the service's own figures.
    """
    started = arrivals[0][0] + buffer_seconds
    # `offset` is what to subtract from a moment to get the position that is played then.
    offset, there, stalls = started, 0.0, []
    for at, next_there in arrivals:
        if at > started and at - offset > there + ROUNDING_SECONDS:
            stall = Stall(there, at - offset - there)
            stalls.append(stall)
            offset += stall.seconds
        there = next_there
    return Playback(started, tuple(stalls))
