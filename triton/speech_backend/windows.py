"""When to decode which tokens, so that joined chunks are the offline waveform. No I/O, no clock.

The vocoder sees 67 tokens to each side of the one it decodes, and nothing is whole-sequence: a
chunk decoded with that much true context, or up to the true edge, is exact. Chunks start small,
for an early first sound, and grow, since the context is decoded again with every window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from speech_backend.batches import next_larger
from speech_backend.tokens import TOKENS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

FIELD_TOKENS = 67
"""BiCodec's receptive field to each side: the wave generator's 10 tokens and the prenet's 57."""

WINDOW_LENGTHS = (48, 96, 160, 256, 384, 512)
"""Windows are padded to one of these, so that windows of different requests share a batch."""

RESERVE_SECONDS = 0.2
"""How much a listener should have left when the next chunk comes."""

MAX_GAP_SECONDS = 5.0
"""Longest time without a chunk while there are tokens for one, however far ahead the listener
is: callers take a longer silence for a stall (the gateway after 10 s)."""


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """How windows grow, in tokens of 20 ms.

    `look_ahead` is the context to the right: 67 is exact; less gives an earlier first sound, and
    samples near cuts that depend on where (so on when) the cuts were. The first chunk has
    `first_chunk` tokens, each next one at most `growth` times the last and `max_chunk`. A
    listener who has more than `comfort_seconds` waits for `max_chunk`; when the buffer runs low,
    `min_chunk` tokens are enough; twice as many with each time that it has run dry, up to four
    times, since the contexts of tiny windows would slow a busy machine even more.
    """

    look_ahead: int = FIELD_TOKENS
    first_chunk: int = 25
    min_chunk: int = 20
    growth: float = 3.0
    max_chunk: int = 250
    comfort_seconds: float = 2.0

    def __post_init__(self) -> None:
        # At least one token is held back until the end is known: the last chunk says why it ends.
        if not 1 <= self.look_ahead <= FIELD_TOKENS:
            raise ValueError(f"look_ahead is {self.look_ahead}, allowed are 1 to {FIELD_TOKENS}")
        if not 1 <= self.min_chunk <= self.first_chunk <= self.max_chunk:
            raise ValueError(
                f"min_chunk {self.min_chunk}, first_chunk {self.first_chunk} and max_chunk "
                f"{self.max_chunk} must not fall, from 1"
            )
        if self.growth < 1 or self.comfort_seconds < 0:
            raise ValueError(
                f"growth is {self.growth}, at least 1; comfort_seconds is "
                f"{self.comfort_seconds}, at least 0"
            )
        bucket(FIELD_TOKENS + self.max_chunk + self.look_ahead)


@dataclass(frozen=True, slots=True)
class Window:
    """Decode tokens[start - context_left : stop + context_right], keep those of start..stop."""

    start: int
    stop: int
    context_left: int
    context_right: int
    is_last: bool

    @property
    def length(self) -> int:
        """Tokens to decode."""
        return self.context_left + self.stop - self.start + self.context_right

    @property
    def kept(self) -> range:
        """Which of the tokens to decode are not context."""
        return range(self.context_left, self.context_left + self.stop - self.start)


class WindowPlanner:
    """Turns tokens, as they come, into the windows of one utterance.

    Windows follow each other without gap or overlap. Whoever decodes a window reports it as
    `sent` before asking for the next one. Times are seconds of any monotonic clock.
    """

    def __init__(self, plan: WindowPlan) -> None:
        self._plan = plan
        self._codes: list[int] = []
        self._finished = False
        self._start = 0
        self._last_chunk = 0
        self._min_chunk = plan.min_chunk
        self._asked_at = 0.0
        self._sent_at = 0.0
        self._seconds_per_token = 0.0
        self._dry_at: float | None = None

    def push(self, codes: Iterable[int]) -> None:
        """Add the semantic codes that have just come."""
        self._codes += codes

    def finish(self) -> None:
        """Say that no more codes will come."""
        self._finished = True

    def codes(self, window: Window) -> npt.NDArray[np.int32]:
        """Return the codes to decode for a window, int32[window.length]."""
        first, last = window.start - window.context_left, window.stop + window.context_right
        return np.array(self._codes[first:last], np.int32)

    def next_window(self, now_seconds: float) -> Window | None:
        """Return the window to decode now, or None while it is better to wait."""
        available = len(self._codes) - (0 if self._finished else self._plan.look_ahead)
        ready = available - self._start
        target = self._target(now_seconds)
        is_due = self._finished or ready >= target or self._is_urgent(ready, now_seconds)
        if ready <= 0 or not is_due:
            return None
        self._asked_at = now_seconds
        return self._window(self._start + min(ready, target))

    def sent(self, window: Window, now_seconds: float) -> None:
        """Note that the window's samples are with the listener, who plays in real time."""
        self._seconds_per_token = (now_seconds - self._asked_at) / window.length
        self._sent_at = now_seconds
        self._start = window.stop
        self._last_chunk = window.stop - window.start
        if self._dry_at is None:
            self._dry_at = now_seconds
        elif self._dry_at < now_seconds:
            plan = self._plan
            self._min_chunk = min(2 * self._min_chunk, 4 * plan.min_chunk, plan.max_chunk)
            self._dry_at = now_seconds
        self._dry_at += self._last_chunk / TOKENS_PER_SECOND

    def _window(self, stop: int) -> Window:
        reached = min(len(self._codes), stop + self._plan.look_ahead)
        is_last = self._finished and reached == len(self._codes)
        # What reaches the true end is exact to the end, and is decoded anyway.
        stop = reached if is_last else stop
        left = min(self._start, FIELD_TOKENS)
        return Window(self._start, stop, left, reached - stop, is_last)

    def _target(self, now_seconds: float) -> int:
        plan = self._plan
        if self._dry_at is None:
            return plan.first_chunk
        if self._dry_at - now_seconds > plan.comfort_seconds:
            return plan.max_chunk
        grown = math.ceil(self._last_chunk * plan.growth)
        return min(plan.max_chunk, max(plan.first_chunk, grown))

    def _is_urgent(self, ready: int, now_seconds: float) -> bool:
        if self._dry_at is None or ready < self._min_chunk:
            return False
        length = FIELD_TOKENS + ready + self._plan.look_ahead
        needed = RESERVE_SECONDS + self._seconds_per_token * length
        is_late = now_seconds - self._sent_at >= MAX_GAP_SECONDS
        return is_late or self._dry_at - now_seconds <= needed


def bucket(length: int) -> int:
    """Return the number of tokens that a window of `length` tokens is padded to."""
    padded = next_larger(length, WINDOW_LENGTHS)
    if padded is None:
        raise ValueError(f"a window of {length} tokens is longer than {WINDOW_LENGTHS[-1]}")
    return padded
