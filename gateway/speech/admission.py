"""Who may come in now: permits, the queue for them, and the limits of each caller."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict, deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from gateway.errors import OverloadedError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

WINDOW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How many permits there are, who may wait for one, and what each caller may have."""

    permits: int
    wait_seconds: float
    max_waiting: int
    caller_concurrent: int | None = None
    caller_per_minute: int | None = None


class Admission:
    """A fixed number of permits, given in the order of arrival after a bounded wait.

    Every refusal of the gateway comes from here. Who is refused at the door does not count
    against the caller's minute; who waited in vain does.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._free = asyncio.Semaphore(limits.permits)
        self._present = Counter[str]()
        # The callers are the keys of the settings, and none has more entries than its limit.
        self._arrivals: defaultdict[str, deque[float]] = defaultdict(deque)
        self.in_flight = 0
        self.waiting = 0

    @asynccontextmanager
    async def permit(self, caller: str) -> AsyncGenerator[None, None]:
        """Hold a permit; raises OverloadedError if the caller cannot have one in time."""
        self._check_concurrency(caller)
        self._check_queue()
        self.count_in_the_minute(caller)
        self._present[caller] += 1
        try:
            await self._acquire()
            self.in_flight += 1
            try:
                yield
            finally:
                self.in_flight -= 1
                self._free.release()
        finally:
            self._present[caller] -= 1

    def _check_concurrency(self, caller: str) -> None:
        limit = self._limits.caller_concurrent
        if limit is not None and self._present[caller] >= limit:
            raise OverloadedError(
                f"caller '{caller}' has {limit} requests running or waiting, as many as are "
                "allowed at once (SPEECH_KEY_MAX_CONCURRENT_REQUESTS)",
                reason="key_concurrency",
                code="rate_limit_exceeded",
            )

    def _check_queue(self) -> None:
        limit = self._limits.max_waiting
        if self._free.locked() and self.waiting >= limit:
            raise OverloadedError(
                f"all {self._limits.permits} streams are busy and {limit} requests wait for one "
                "already; try again, or raise SPEECH_MAX_CONCURRENT_REQUESTS or "
                "SPEECH_MAX_WAITING_REQUESTS",
                reason="queue_full",
            )

    def count_in_the_minute(self, caller: str) -> None:
        """Count a request of the caller; raises OverloadedError if it is one too many."""
        limit = self._limits.caller_per_minute
        if limit is None:
            return
        now, arrivals = self._clock(), self._arrivals[caller]
        while arrivals and arrivals[0] + WINDOW_SECONDS <= now:
            arrivals.popleft()
        if len(arrivals) >= limit:
            seconds = arrivals[0] + WINDOW_SECONDS - now
            raise OverloadedError(
                f"caller '{caller}' has made {limit} requests within a minute, as many as are "
                f"allowed (SPEECH_KEY_REQUESTS_PER_MINUTE); try again in {seconds:.1f} s",
                reason="key_rate",
                code="rate_limit_exceeded",
                retry_after_seconds=seconds,
            )
        arrivals.append(now)

    async def _acquire(self) -> None:
        if not self._free.locked():
            await self._free.acquire()
            return
        self.waiting += 1
        try:
            with anyio.fail_after(self._limits.wait_seconds):
                await self._free.acquire()
        except TimeoutError as error:
            raise OverloadedError(
                f"all {self._limits.permits} streams are busy and none came free within "
                f"{self._limits.wait_seconds:g} s; try again, or raise "
                "SPEECH_MAX_CONCURRENT_REQUESTS",
                reason="wait_exceeded",
            ) from error
        finally:
            self.waiting -= 1
