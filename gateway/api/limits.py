"""Refuses bodies that are too large, before anything parses them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.api.envelope import refuse
from gateway.errors import RequestTooLargeError, RequestTooSlowError
from gateway.speech.deadline import timeout

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from gateway.errors import SpeechError

MAX_DRAINED_BYTES = 128 * 2**20
BODY_SECONDS = 30.0
"""How long a body may take to arrive; the texts here are small."""


class BodyLimit:
    """ASGI middleware: 413 for a body over `max_bytes`, of which nothing is kept.

    408 for one that is not there within `seconds`.

    The rest of such a body is read and thrown away (up to MAX_DRAINED_BYTES), since most
    clients read an answer only after they have sent everything.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body of a POST, then hand it on whole or refuse it."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        error: SpeechError = RequestTooLargeError(
            f"the body is larger than {self._max_bytes} bytes (SPEECH_MAX_BODY_BYTES)"
        )
        body = None
        try:
            async with timeout(self._seconds):
                body = await self._read(receive)
        except asyncio.TimeoutError:
            error = RequestTooSlowError(f"the body did not arrive within {self._seconds:g} s")
        if body is not None:
            # Nobody hears what is said to one who left in the middle of it.
            if body["type"] != "http.disconnect":
                await self._app(scope, _replay(body, receive), send)
            return
        response = refuse(error, scope)
        response.headers["connection"] = "close"
        await response(scope, receive, send)

    async def _read(self, receive: Receive) -> Message | None:
        parts: list[bytes] = []
        size, more = 0, True
        while more and size <= MAX_DRAINED_BYTES:
            message = await receive()
            if message["type"] == "http.disconnect":
                return message
            part = message.get("body", b"")
            size += len(part)
            if size > self._max_bytes:
                parts.clear()
            else:
                parts.append(part)
            more = message.get("more_body", False)
        if size > self._max_bytes:
            return None
        return {"type": "http.request", "body": b"".join(parts), "more_body": False}


def _replay(first: Message, receive: Receive) -> Receive:
    pending = [first]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay
