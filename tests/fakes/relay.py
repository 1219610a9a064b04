"""What lies between gateway and Triton: a relay of TCP that can be cut, slowed, frozen and moved.

With a TLS context it ends TLS itself, as a tunnel does that has the certificate.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import Coroutine
    from concurrent.futures import Future

STEP_SECONDS = 10.0
PIECE_BYTES = 16_384


class Relay:
    """Carries connections to `target`, host:port, in a thread of its own; ports stay the same.

    >>> with Relay(triton.address) as relay, RunningService(relay.address) as service:
    ...     relay.freeze()
    """

    def __init__(self, target: str, *, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self.target = target
        self.port = port
        self.taken = 0
        """How many connections there have been; with TLS, those whose handshake came to its end."""
        self._flows = _flowing()
        self._tls = tls
        self._pairs: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._bytes_per_second: float | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)

    @property
    def address(self) -> str:
        """host:port for SPEECH_TRITON_ADDRESS."""
        return f"127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        """How many connections there are now."""
        return len(self._pairs)

    def __enter__(self) -> Relay:  # noqa: PYI034  Self needs Python 3.11
        self._thread.start()
        self._do(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STEP_SECONDS)
        self._loop.close()

    def cut(self) -> None:
        """Reset all connections; new ones are taken."""
        self._do(self._cut())

    def refuse(self) -> None:
        """Take no new connections, and reset those that there are."""
        self._do(self._refuse())

    def accept(self) -> None:
        """Take connections again, at the same port."""
        self._do(self._open())

    def freeze(self) -> None:
        """Carry nothing more, with all connections left open, and those that are new."""
        self._do(self._set_flow(flows=False))

    def thaw(self) -> None:
        """Carry what was held back, and what comes."""
        self._do(self._set_flow(flows=True))

    def strand(self) -> None:
        """Carry nothing more on the connections that there are, left open; new ones are well."""
        self._do(self._strand())

    def slow(self, bytes_per_second: float | None) -> None:
        """Carry no more than that from Triton on each connection; None: as much as comes."""
        self._bytes_per_second = bytes_per_second

    def move(self, target: str) -> None:
        """Lead new connections elsewhere, and reset those that there are."""
        self.target = target
        self.cut()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        done: Future[None] = asyncio.run_coroutine_threadsafe(work, self._loop)
        done.result(STEP_SECONDS)

    async def _open(self) -> None:
        self._server = await asyncio.start_server(
            self._carry, "127.0.0.1", self.port, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        await self._refuse()
        pending = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*pending, return_exceptions=True)

    async def _refuse(self) -> None:
        self._server.close()
        await self._cut()

    async def _cut(self) -> None:
        for writer in tuple(self._writers):
            writer.transport.abort()
        for pair in tuple(self._pairs):
            pair.cancel()
        await asyncio.gather(*self._pairs, return_exceptions=True)

    async def _set_flow(self, *, flows: bool) -> None:
        if flows:
            self._flows.set()
        else:
            self._flows.clear()

    async def _strand(self) -> None:
        self._flows.clear()
        self._flows = _flowing()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.taken += 1
        self._pairs.add(task)
        self._writers.add(writer)
        with suppress(OSError, asyncio.CancelledError):
            await self._connect(reader, writer)
        writer.transport.abort()
        self._writers.discard(writer)
        self._pairs.discard(task)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self.target.rsplit(":", 1)
        from_triton, to_triton = await asyncio.open_connection(host, int(port))
        self._writers.add(to_triton)
        ways = [
            asyncio.ensure_future(self._pump(reader, to_triton, None)),
            asyncio.ensure_future(self._pump(from_triton, writer, "slow")),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            to_triton.transport.abort()
            self._writers.discard(to_triton)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, slows: str | None
    ) -> None:
        flows = self._flows
        while piece := await source.read(PIECE_BYTES):
            await flows.wait()
            if slows and self._bytes_per_second:
                await asyncio.sleep(len(piece) / self._bytes_per_second)
            sink.write(piece)
            await sink.drain()


def _flowing() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event
