"""The measurements of one request, turned into metrics and a log line by telemetry."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from gateway.errors import BackendTimeoutError, InvalidRequestError, OverloadedError, SpeechError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.speech.types import SpeechJob

Outcome: TypeAlias = Literal["finished", "failed", "timed_out", "cancelled", "rejected"]
OUTCOMES: tuple[Outcome, ...] = ("finished", "failed", "timed_out", "cancelled", "rejected")


@dataclass(slots=True)
class SpeechRecord:
    """Marks of one request, seconds on a monotonic clock.

    A record that nobody finished or failed was given up: its outcome is "cancelled".
    """

    job: SpeechJob
    clock: Callable[[], float] = time.monotonic
    outcome: Outcome = "cancelled"
    error: SpeechError | None = None
    accepted_at: float = field(init=False)
    first_audio_at: float | None = None
    closed_at: float | None = None
    audio_seconds: float = 0.0
    packet_bytes: int = 0
    finish_reason: str | None = None

    def __post_init__(self) -> None:
        """Start the clock."""
        self.accepted_at = self.clock()

    def sent(self, packet: bytes, audio_seconds: float) -> None:
        """Note a packet that is handed to the listener's connection."""
        if self.first_audio_at is None and audio_seconds > 0:
            self.first_audio_at = self.clock()
        self.audio_seconds += audio_seconds
        self.packet_bytes += len(packet)

    def fail(self, error: SpeechError) -> None:
        """Note why the request ended early."""
        self.error = error
        is_refusal = isinstance(error, (InvalidRequestError, OverloadedError))
        if is_refusal and self.first_audio_at is None:
            self.outcome = "rejected"
        else:
            self.outcome = "timed_out" if isinstance(error, BackendTimeoutError) else "failed"

    def close(self) -> None:
        """Stop the clock."""
        self.closed_at = self.clock()

    @property
    def first_audio_seconds(self) -> float | None:
        """Seconds from acceptance to the first audio, None if there was none."""
        return None if self.first_audio_at is None else self.first_audio_at - self.accepted_at

    @property
    def total_seconds(self) -> float:
        """Seconds from acceptance to the end, 0 while it runs."""
        return 0.0 if self.closed_at is None else self.closed_at - self.accepted_at
