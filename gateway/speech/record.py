"""The measurements of one request, turned into metrics and a log line by telemetry."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from gateway.errors import (
    BackendTimeoutError,
    InvalidRequestError,
    ListenerTooSlowError,
    OverloadedError,
    SpeechError,
)
from gateway.speech.buckets import BucketCounts
from gateway.speech.playback import Player
from gateway.speech.synthesizer import CallContext

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from gateway.speech.types import SpeechJob

Outcome: TypeAlias = Literal["finished", "failed", "timed_out", "cancelled", "rejected"]
OUTCOMES: tuple[Outcome, ...] = ("finished", "failed", "timed_out", "cancelled", "rejected")

Suspicion: TypeAlias = Literal["silent", "too_short"]
SUSPICIONS: tuple[Suspicion, ...] = ("silent", "too_short")
Stage: TypeAlias = Literal["admission", "first_audio", "streaming"]
STAGES: tuple[Stage, ...] = ("admission", "first_audio", "streaming")
"""What a request waits for: its permit, its first audio, its end."""
Moment: TypeAlias = Literal["admitted", "first_chunk", "first_audio", "closed"]
"""What a request reaches, each once at most, the last always."""
GAP_BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2.5, 5, 10)
SHORTEST_SECONDS = 0.1
"""The shortest words last longer: "a" takes the CPU voice 0.3 s."""
QUIETEST_PEAK = 0.003
"""-50 dBFS; speech peaks above -30."""


@dataclass(slots=True)
class SpeechRecord:
    """Marks of one request, seconds on a monotonic clock.

    A record that nobody finished or failed was given up: its outcome is "cancelled". So is that
    of a listener who took too long.
    """

    job: SpeechJob
    clock: Callable[[], float] = time.monotonic
    on_reached: Callable[[SpeechRecord, Moment, float], None] | None = None
    """Told of each moment when it comes, and of the seconds since acceptance."""
    outcome: Outcome = "cancelled"
    error: SpeechError | None = None
    context: CallContext = field(init=False)
    accepted_at_seconds: float = field(init=False)
    admitted_at_seconds: float | None = None
    first_chunk_at_seconds: float | None = None
    first_audio_at_seconds: float | None = None
    closed_at_seconds: float | None = None
    audio_seconds: float = 0.0
    peak: float = 0.0
    finish_reason: str | None = None
    is_taking: bool = False
    """The listener has not yet taken all that was sent to him."""
    is_whole: bool = False
    """The audio is kept until all of it is there, so no player waits for its parts."""
    gaps: BucketCounts = field(default_factory=lambda: BucketCounts(GAP_BUCKETS_SECONDS))
    """How long the gateway waited for each chunk but the first of a segment."""
    player: Player = field(default_factory=Player)

    def __post_init__(self) -> None:
        """Start the clock."""
        self.context = CallContext(self.job.request_id, self.job.deadline)
        self.accepted_at_seconds = self.clock()

    def admitted(self) -> None:
        """Note that the request has its permit."""
        self.admitted_at_seconds = self.clock()
        self._reached("admitted", self.admitted_at_seconds)

    def arrived(self, asked_at_seconds: float | None) -> None:
        """Note a chunk of the model; None: it begins a segment, so nobody waited for a next one."""
        now_seconds = self.clock()
        if self.first_chunk_at_seconds is None:
            self.first_chunk_at_seconds = now_seconds
            self._reached("first_chunk", now_seconds)
        if asked_at_seconds is not None:
            self.gaps.add(now_seconds - asked_at_seconds)

    def received(self, audio_seconds: float, peak: float, finish_reason: str | None = None) -> None:
        """Note how much audio there is after another chunk, and its greatest sample."""
        self.audio_seconds = audio_seconds
        self.peak = max(self.peak, peak)
        self.finish_reason = finish_reason or self.finish_reason

    def sent(self) -> None:
        """Note that encoded audio goes to the listener."""
        now_seconds = self.clock()
        self.is_taking = True
        if self.first_audio_at_seconds is None:
            self.first_audio_at_seconds = now_seconds
            self._reached("first_audio", now_seconds)
        if not self.is_whole:
            self.player.offered(now_seconds, self.audio_seconds)

    def taken(self) -> None:
        """Note that the listener has taken what was sent."""
        self.is_taking = False
        if not self.is_whole:
            self.player.taken(self.clock())

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
        if isinstance(error, BackendTimeoutError) and self.is_taking:
            # Nobody but the listener was waited for; he is as good as gone.
            self.error = ListenerTooSlowError("the listener took too long", detail=error.detail)
            return
        self.error = error
        is_refusal = isinstance(error, (InvalidRequestError, OverloadedError))
        if is_refusal and not self.has_left:
            self.outcome = "rejected"
        else:
            self.outcome = "timed_out" if isinstance(error, BackendTimeoutError) else "failed"

    def close(self) -> None:
        """Stop the clock."""
        self.closed_at_seconds = self.clock()
        if self.outcome != "finished":
            self.finish_reason = None  # It was a segment's, and the text goes on.
            self.player.broke_off(self.closed_at_seconds)
        self._reached("closed", self.closed_at_seconds)

    @property
    def has_left(self) -> bool:
        """Whether audio has gone to the listener."""
        return self.first_audio_at_seconds is not None

    @property
    def stage(self) -> Stage:
        """What the request waits for, or waited for when it ended."""
        if self.admitted_at_seconds is None:
            return "admission"
        return "streaming" if self.has_left else "first_audio"

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
        return self._since_acceptance(self.admitted_at_seconds)

    @property
    def first_chunk_seconds(self) -> float | None:
        """Seconds from acceptance to the model's first chunk, None if there was none."""
        return self._since_acceptance(self.first_chunk_at_seconds)

    @property
    def first_audio_seconds(self) -> float | None:
        """Seconds from acceptance to the first audio that left, None if none did."""
        return self._since_acceptance(self.first_audio_at_seconds)

    @property
    def total_seconds(self) -> float:
        """Seconds from acceptance to the end, 0 while it runs."""
        return self._since_acceptance(self.closed_at_seconds) or 0.0

    @property
    def realtime_factor(self) -> float | None:
        """Seconds from the permit to the end for each second of audio, None unless it finished."""
        if self.outcome != "finished" or self.closed_at_seconds is None:
            return None
        if self.admitted_at_seconds is None or self.audio_seconds == 0:
            return None
        return (self.closed_at_seconds - self.admitted_at_seconds) / self.audio_seconds

    def _reached(self, moment: Moment, now_seconds: float) -> None:
        if self.on_reached is not None:
            self.on_reached(self, moment, now_seconds - self.accepted_at_seconds)

    def _since_acceptance(self, moment_seconds: float | None) -> float | None:
        return None if moment_seconds is None else moment_seconds - self.accepted_at_seconds
