"""The words of a request: voice, format, deadline, job."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE_RATE_HZ = 24_000
"""Rate of pcm and wav, whatever the model's: OpenAI's clients assume it."""


@dataclass(frozen=True, slots=True)
class Voice:
    """What a caller may name as `voice`."""

    id: str
    model: str
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Deadline:
    """An absolute moment on a monotonic clock, made once at the edge and handed down."""

    at_seconds: float
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """Return the deadline that many seconds from now."""
        return cls(clock() + seconds, clock)

    def remaining_seconds(self) -> float:
        """Return the seconds that are left, never negative."""
        return max(0.0, self.at_seconds - self.clock())


@dataclass(frozen=True, slots=True)
class SpeechJob:
    """An accepted request."""

    request_id: str
    model: str
    voice: str
    text: str
    audio_format: str
    deadline: Deadline
    seed: int | None = None
