"""When a Triton is shown new certificates: at once, and those that it did not take seldom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.backend.security import Security

FIRST_PAUSE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 60.0


@dataclass(slots=True)
class Renewal:
    """Of one Triton: what it was shown last, and when it may be shown that again.

    Each time costs a connection, and most often the certificates are the fault, not the moment.
    """

    shown: Security | None = None
    pause_seconds: float = FIRST_PAUSE_SECONDS
    due_at_seconds: float = 0.0

    def is_due(self, security: Security, now_seconds: float) -> bool:
        """Return whether it may be shown these now, and take it that it is."""
        if security is self.shown:
            return now_seconds >= self.due_at_seconds
        self.shown, self.pause_seconds = security, FIRST_PAUSE_SECONDS
        return True

    def failed(self, now_seconds: float) -> None:
        """Have it wait longer each time."""
        self.due_at_seconds = now_seconds + self.pause_seconds
        self.pause_seconds = min(2 * self.pause_seconds, LONGEST_PAUSE_SECONDS)
