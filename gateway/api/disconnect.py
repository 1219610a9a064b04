"""Work that ends when the client has gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from gateway.speech.service import SpeechStream

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from starlette.types import Receive

Made = TypeVar("Made")


async def unless_disconnected(making: Coroutine[Any, Any, Made], receive: Receive) -> Made | None:
    """Return what is made, the stream or its whole, or None if the client left before."""
    made = asyncio.ensure_future(making)
    gone = asyncio.ensure_future(_disconnect(receive))
    is_ours = True
    try:
        await asyncio.wait({made, gone}, return_when=asyncio.FIRST_COMPLETED)
        is_ours = not made.done()
        return None if is_ours else made.result()
    finally:
        gone.cancel()
        if is_ours:
            await _abandon(made)


async def _abandon(made: asyncio.Future[Any]) -> None:
    made.cancel()
    await asyncio.wait({made})
    if not made.cancelled() and made.exception() is None:
        result = made.result()
        if isinstance(result, SpeechStream):
            await result.aclose()


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
