"""Whether a request that one Triton failed may go to another."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from gateway.backend.classify import CONSEQUENCES, Elsewhere

if TYPE_CHECKING:
    from gateway.backend.replica import Replica
    from gateway.errors import SpeechError
    from gateway.speech.deadline import Deadline

MAX_ATTEMPTS = 4
"""A text that kills Tritons must not kill all of them."""


class Attempts:
    """The Tritons that a segment has been tried on, while nothing of it has been passed on."""

    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline
        self.tried: list[Replica] = []
        self._errors: list[SpeechError] = []

    @property
    def error(self) -> SpeechError:
        """What the last one failed with."""
        return self._errors[-1]

    def may_go_on(self, replica: Replica, error: SpeechError) -> bool:
        """Note that it failed, and return whether another may try."""
        self.tried.append(replica)
        # The error itself holds the frames that it came through, and they hold these attempts.
        self._errors.append(copy(error))
        elsewhere = [CONSEQUENCES[e.fault].elsewhere for e in self._errors]
        return (
            Elsewhere.NO not in elsewhere
            and elsewhere.count(Elsewhere.ONCE) <= 1
            and len(self.tried) < MAX_ATTEMPTS
            and self.deadline.remaining_seconds() > 0
        )
