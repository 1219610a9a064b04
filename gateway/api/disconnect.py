"""Work that ends when the client has gone."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from starlette.types import Receive

Made = TypeVar("Made")


async def unless_disconnected(making: Coroutine[Any, Any, Made], receive: Receive) -> Made | None:
    """Return what is made, or None if the client left before, and it was cancelled."""
    task = asyncio.current_task()
    is_making = True

    def stop(_: asyncio.Future[None]) -> None:
        if is_making and task is not None:
            task.cancel()

    gone = asyncio.ensure_future(_disconnect(receive))
    gone.add_done_callback(stop)
    try:
        return await making
    except asyncio.CancelledError:
        # Whoever else cancels this task wants all of it to end.
        if not gone.done() or _is_still_cancelled(task):
            raise
        return None
    finally:
        is_making = False
        gone.cancel()


def _is_still_cancelled(task: asyncio.Task[Any] | None) -> bool:
    if sys.version_info >= (3, 11):
        return task is not None and task.uncancel() > 0
    return False  # Python 3.10 does not count them.


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
