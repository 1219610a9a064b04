"""The one absolute deadline of a request, and waits that end with it."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.errors import BackendTimeoutError

# Not anyio's: gRPC raises cancellations of its own, which that would not take for its.
if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    from async_timeout import timeout

if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = ["DEADLINE_HAS_PASSED", "Deadline", "Limit", "timeout"]

DEADLINE_HAS_PASSED = "the request's deadline has passed"


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

    def limit(self, what: str) -> Limit:
        """Raise BackendTimeoutError, `what` as its detail, if the body outlasts the deadline."""
        return Limit(self.remaining_seconds(), what)


class Limit:
    """An `async with` whose body may last that long; a class, since a generator costs more."""

    __slots__ = ("_timeout", "_what")

    def __init__(self, seconds: float, what: str) -> None:
        self._timeout = timeout(seconds)
        self._what = what

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, *raised: object) -> None:
        try:
            await self._timeout.__aexit__(*raised)
        except asyncio.TimeoutError as error:
            raise BackendTimeoutError(DEADLINE_HAS_PASSED, detail=self._what) from error
