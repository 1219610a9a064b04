"""The measurements of one request, turned into metrics and a log line by telemetry."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from gateway.errors import BackendTimeoutError, InvalidRequestError, OverloadedError, SpeechError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from gateway.speech.types import SpeechJob

Outcome: TypeAlias = Literal["finished", "failed", "timed_out", "cancelled", "rejected"]
OUTCOMES: tuple[Outcome, ...] = ("finished", "failed", "timed_out", "cancelled", "rejected")

Suspicion: TypeAlias = Literal["silent", "too_short"]
SUSPICIONS: tuple[Suspicion, ...] = ("silent", "too_short")
SHORTEST_SECONDS = 0.1
"""The shortest words last longer: "a" takes the CPU voice 0.3 s."""
QUIETEST_PEAK = 0.003
"""-50 dBFS; speech peaks above -30."""


@dataclass(slots=True)
class SpeechRecord:
    """Marks of one request, seconds on a monotonic clock.

    A record that nobody finished or failed was given up: its outcome is "cancelled".
    """

    job: SpeechJob
    clock: Callable[[], float] = time.monotonic
    outcome: Outcome = "cancelled"
    error: SpeechError | None = None
    accepted_at_seconds: float = field(init=False)
    admitted_at_seconds: float | None = None
    first_audio_at_seconds: float | None = None
    closed_at_seconds: float | None = None
    audio_seconds: float = 0.0
    peak: float = 0.0
    finish_reason: str | None = None

    def __post_init__(self) -> None:
        """Start the clock."""
        self.accepted_at_seconds = self.clock()

    def admitted(self) -> None:
        """Note that the request has its permit."""
        self.admitted_at_seconds = self.clock()

    def received(self, audio_seconds: float, peak: float, finish_reason: str | None = None) -> None:
        """Note how much audio there is after another chunk, and its greatest sample."""
        self.audio_seconds = audio_seconds
        self.peak = max(self.peak, peak)
        self.finish_reason = finish_reason or self.finish_reason

    def sent(self) -> None:
        """Note that encoded audio goes to the listener."""
        if self.first_audio_at_seconds is None:
            self.first_audio_at_seconds = self.clock()

    @contextmanager
    def failures(self) -> Generator[None, None, None]:
        """Note whatever error leaves the body; cancellation is none."""
        try:
            yield
        except SpeechError as error:
            self.fail(error)
            raise
        except Exception as error:
            self.fail(SpeechError("an internal error", detail=repr(error)))
            raise

    def fail(self, error: SpeechError) -> None:
        """Note why the request ended early."""
        self.error = error
        is_refusal = isinstance(error, (InvalidRequestError, OverloadedError))
        if is_refusal and self.first_audio_at_seconds is None:
            self.outcome = "rejected"
        else:
            self.outcome = "timed_out" if isinstance(error, BackendTimeoutError) else "failed"

    def close(self) -> None:
        """Stop the clock."""
        self.closed_at_seconds = self.clock()

    @property
    def suspicion(self) -> Suspicion | None:
        """What is odd about audio that came whole, None if nothing is."""
        if self.outcome != "finished":
            return None
        if self.audio_seconds < SHORTEST_SECONDS:
            return "too_short"
        return "silent" if self.peak < QUIETEST_PEAK else None

    @property
    def admission_wait_seconds(self) -> float | None:
        """Seconds from acceptance to the permit, None if there was none."""
        return (
            None
            if self.admitted_at_seconds is None
            else self.admitted_at_seconds - self.accepted_at_seconds
        )

    @property
    def first_audio_seconds(self) -> float | None:
        """Seconds from acceptance to the first audio, None if there was none."""
        return (
            None
            if self.first_audio_at_seconds is None
            else self.first_audio_at_seconds - self.accepted_at_seconds
        )

    @property
    def total_seconds(self) -> float:
        """Seconds from acceptance to the end, 0 while it runs."""
        return (
            0.0
            if self.closed_at_seconds is None
            else self.closed_at_seconds - self.accepted_at_seconds
        )
