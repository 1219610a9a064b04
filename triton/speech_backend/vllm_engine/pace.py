"""When ids are sent on: each message costs the front Python time, and each pause the listener's.

A request pauses between two messages, and what it writes meanwhile goes into the next one.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IDS_PER_SECOND = 50
"""How many a listener hears."""

FIRST_SOUND_IDS = 131
"""Until then nothing may have been heard where the request does not say how many make a sound: a
new voice is 39 ids, the front's first chunk 25, and its window looks 67 ahead."""

FASTEST_STEP_SECONDS = 0.001
"""Fewer than these lie between two ids on no GPU that was measured."""

MAX_GATHER_SECONDS = 0.02
"""Longest pause before the first message; less, where the text is short and ends."""

MESSAGES_PER_SECOND = 1000
"""For those who wait for their first sound together, and as many for all others. Reading one takes
the front 0.2 ms of its one loop; sending one takes 0.3 ms here."""

MESSAGES_AHEAD_PER_SECOND = 300
"""For those whose listeners have much left, together."""

LEAD_SHARE = 1 / 8
"""How much of what a listener has left may be waited for. The front goes on decoding when 0.2 s
are left, so this is never heard."""

MAX_PAUSE_SECONDS = 0.1
"""Longest pause where 30 are heard or fewer."""


class Pacer:
    """The requests that are being answered. Used from one thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._requests: set[Pace] = set()

    @contextmanager
    def request(self, first_ids: int = 0) -> Iterator[Pace]:
        """Count a request while it is answered, and give its pace.

        `first_ids` are what its first sound is made of, 0 where that is not known.
        """
        pace = Pace(self, self._clock, first_ids)
        self._requests.add(pace)
        try:
            yield pace
        finally:
            self._requests.remove(pace)

    def sharing(self, *, is_heard: bool) -> int:
        """Return how many requests are as far as one that `is_heard` or is not yet."""
        return sum(pace.is_heard is is_heard for pace in self._requests)


class Pace:
    """How fast one request may send."""

    def __init__(self, pacer: Pacer, clock: Callable[[], float], first_ids: int) -> None:
        self._pacer = pacer
        self._clock = clock
        self._first_ids = first_ids
        self._ids = 0
        self._began_at: float | None = None

    @property
    def is_heard(self) -> bool:
        """Whether the front has enough for the first sound."""
        return self._ids >= (self._first_ids or FIRST_SOUND_IDS)

    def missing(self, new_ids: int) -> int:
        """Return how many more ids are worth a message than `new_ids`."""
        return max(0, self._first_ids - self._ids - new_ids)

    def pause_seconds(self, new_ids: int) -> float:
        """Return how long to gather ids after a message of `new_ids`."""
        now = self._clock()
        self._began_at = now if self._began_at is None else self._began_at
        self._ids += new_ids
        sharing = self._pacer.sharing(is_heard=self.is_heard)
        share = sharing / MESSAGES_PER_SECOND
        if not self.is_heard:
            return share
        lead = (self._ids - self._first_ids) / IDS_PER_SECOND - (now - self._began_at)
        longest = max(MAX_PAUSE_SECONDS, sharing / MESSAGES_AHEAD_PER_SECOND)
        return max(share, min(lead * LEAD_SHARE, longest))
