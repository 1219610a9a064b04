"""The one absolute deadline of a request, and waits that end with it."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.errors import BackendTimeoutError

# Not anyio's: gRPC raises cancellations of its own, which that would not take for its.
if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    from async_timeout import timeout

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable


@dataclass(frozen=True)  # Without slots, so that it can be referred to weakly.
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

    @asynccontextmanager
    async def limit(self, what: str, seconds: float | None = None) -> AsyncGenerator[None, None]:
        """Raise BackendTimeoutError if the body outlasts the deadline, or these seconds.

        `what` is the message where the seconds were the shorter.
        """
        remaining = self.remaining_seconds()
        allowed = remaining if seconds is None else min(seconds, remaining)
        try:
            async with timeout(allowed):
                yield
        except asyncio.TimeoutError as error:
            is_deadline = seconds is None or remaining <= seconds
            message = "the request's deadline has passed" if is_deadline else what
            raise BackendTimeoutError(message, detail=what) from error
