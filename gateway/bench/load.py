"""Makes the requests: in turn by so many clients, or at moments fixed beforehand."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gateway.bench.requests import Take

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    from async_timeout import timeout

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

    from gateway.bench.requests import Request, Utterance


class TargetError(Exception):
    """A request failed; `kind` is what failures are counted by."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Names(NamedTuple):
    """The model and the voice, None where it has none or each utterance brings one."""

    model: str
    voice: str | None


class Target(Protocol):
    """What is measured. Make it, and use it, inside one running event loop."""

    async def prepare(self, utterances: Sequence[Utterance]) -> Names:
        """Return which model and voice will speak; raises BenchError where these cannot be."""

    def speak(self, utterance: Utterance, take: Take) -> AsyncGenerator[bytes, None]:
        """Ask for the speech and yield its bytes as they come; return after its proper end.

        Notes the sample rate in `take` where the answer says it. Raises TargetError for every
        other ending. Closing the generator hangs up.
        """

    async def aclose(self) -> None:
        """Close the connections."""


class Load:
    """Sends requests to a target and hands out a Take of each when it has ended."""

    def __init__(
        self,
        target: Target,
        timeout_seconds: float,
        ended: Callable[[Take], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target = target
        self._timeout_seconds = timeout_seconds
        self._ended = ended
        self._clock = clock

    async def closed(self, requests: Iterable[Request], concurrency: int) -> None:
        """Keep `concurrency` requests running: each client sends its next when one has ended."""
        waiting = iter(requests)

        async def client() -> None:
            for request in waiting:
                await self._listen(request, self._clock())

        await asyncio.gather(*(client() for _ in range(concurrency)))

    async def open(self, requests: Iterable[Request], arrivals: Iterable[float]) -> None:
        """Send each request at its moment, in seconds from now, however slow the others are.

        Its times count from that moment: a late one is late for the listener too.
        """
        start = self._clock()
        running = []
        for request, arrival in zip(requests, arrivals, strict=False):
            await asyncio.sleep(max(0.0, start + arrival - self._clock()))
            running.append(asyncio.ensure_future(self._listen(request, start + arrival)))
        await asyncio.gather(*running)

    async def _listen(self, request: Request, scheduled_seconds: float) -> None:
        take = Take(request, scheduled_seconds, self._clock())
        patience = self._timeout_seconds
        if request.hang_up_seconds is not None:
            patience = min(patience, request.hang_up_seconds)
        try:
            async with (
                timeout(patience),
                aclosing(self._target.speak(request.utterance, take)) as pieces,
            ):
                async for piece in pieces:
                    take.pieces.append((self._clock(), piece))
                    if request.slow_bytes_per_second is not None:
                        await asyncio.sleep(len(piece) / request.slow_bytes_per_second)
        except asyncio.TimeoutError:
            hung_up = request.hang_up_seconds is not None
            take.outcome = "hung up" if hung_up else "timeout"
        except TargetError as error:
            take.outcome, take.detail = error.kind, str(error)
        take.ended_seconds = self._clock()
        self._ended(take)
