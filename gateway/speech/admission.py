"""Permits: how many requests may be at Triton at once."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from gateway.errors import OverloadedError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class Admission:
    """A fixed number of permits, tried at the door with a bounded wait."""

    def __init__(self, permits: int, wait_seconds: float) -> None:
        self._permits = permits
        self._wait_seconds = wait_seconds
        self._free = asyncio.Semaphore(permits)
        self.in_flight = 0

    @asynccontextmanager
    async def permit(self) -> AsyncGenerator[None, None]:
        """Hold a permit; raises OverloadedError if none came free within the wait."""
        await self._acquire()
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._free.release()

    async def _acquire(self) -> None:
        if not self._free.locked():
            await self._free.acquire()
            return
        try:
            with anyio.fail_after(self._wait_seconds):
                await self._free.acquire()
        except TimeoutError as error:
            raise OverloadedError(
                f"all {self._permits} streams are busy and none came free within "
                f"{self._wait_seconds:g} s; try again, or raise SPEECH_MAX_CONCURRENT_REQUESTS"
            ) from error
