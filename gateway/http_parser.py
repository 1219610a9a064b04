"""Which of uvicorn's two parsers reads a connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn._types import ASGI3Application
    from uvicorn.server import ServerState

MAX_HEAD_BYTES = 65_536


class FirstHead(asyncio.Protocol):
    """Reads a connection's first head, and hands the connection to the parser that fits.

    That is httptools, which is faster, but for two kinds of clients: those that offer another
    protocol (Java's offer HTTP/2), whose body it loses, and those that speak HTTP/1.0, to whom it
    sends chunk sizes in the audio. They get h11, and do on one connection what they do at first.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._service = (config, server_state, app_state)
        self._connections = server_state.connections
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the connection, so that a stopping server can close it."""
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        """Wait for a whole head, then hand over."""
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0 and len(self._head) < MAX_HEAD_BYTES:
            return
        self._connections.discard(self)
        kind = H11Protocol if needs_h11(self._head[:end]) else HttpTools
        protocol = kind(*self._service)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(self._head)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Forget the connection."""
        self._connections.discard(self)

    def shutdown(self) -> None:
        """Close: nothing has been asked yet."""
        self._transport.close()


class HttpTools(HttpToolsProtocol):
    """Tells the request that is answered that its client has left: uvicorn tells the last alone."""

    _answered: RequestResponseCycle | None = None

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let it end; those that wait behind it never begin."""
        super().connection_lost(exc)
        if self._answered is not None:
            self._answered.disconnected = True
            self._answered.message_event.set()


def needs_h11(head: bytes) -> bool:
    """Return whether a request with this head is one that httptools does not read well."""
    request_line, _, fields = head.partition(b"\r\n")
    return request_line.endswith(b" HTTP/1.0") or b"\r\nupgrade:" in b"\r\n" + fields.lower()
