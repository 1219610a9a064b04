"""The event loop of a model's process, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

T = TypeVar("T")

log = logging.getLogger(__name__)


class LoopThread:
    """Runs an event loop from now until `close`."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="requests", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it in the loop and return its result; called from another thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def close(self) -> None:
        """End the loop, once the threads that it started for tasks have ended."""
        self.run(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


async def repeat(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    """Do `work` every so many seconds until this is cancelled; its failures are logged."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await work()
        except Exception:
            log.exception("failed, and is done again after %s s", seconds)
