"""Many requests at once in one event loop, for models that compute them together."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from speech_backend.loop import repeat
from speech_backend.serving import (
    Outcomes,
    Sender,
    failure,
    is_cancel,
    read,
    response,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from speech_backend.serving import Answer, Codec

log = logging.getLogger(__name__)

Generate: TypeAlias = "Callable[[Any], AsyncGenerator[Answer, None]]"

ASK_SECONDS = 1.0
"""How old the server's word that a client is still there may be. Who cancels by a request is heard
at once; this is for clients that were killed."""

LOOK_SECONDS = ASK_SECONDS / 4
"""How often it is looked for clients after whom to ask."""


class RequestTasks:
    """Answers Triton's requests with what `generate` yields, as tasks of the running `loop`.

    The promises are those of `serving.serve` and `threads.RequestThreads`, but the server is asked
    once in ASK_SECONDS only whether a client is still there, also while nothing is answered. A
    request that is cancelled ends where it waits: its generator is closed at once. Calls to the
    server take some 0.3 ms and go through a thread of their own, so that the loop goes on
    meanwhile.
    """

    def __init__(
        self,
        pb_utils: Any,
        model: str,
        generate: Generate,
        codec: Codec,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pb_utils = pb_utils
        self._generate = generate
        self._codec = codec
        self._loop = loop
        self._clock = clock
        self._outcomes = Outcomes(pb_utils, model)
        self._calls = ThreadPoolExecutor(1, thread_name_prefix="send")
        self._answering: dict[str, asyncio.Task[str]] = {}
        self._senders: dict[asyncio.Task[str], Sender] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._looking = asyncio.run_coroutine_threadsafe(repeat(LOOK_SECONDS, self.look), loop)

    def accept(self, request: Any) -> None:
        """Take a request and return at once; its sender answers from another thread."""
        is_stop = is_cancel(self._pb_utils, request, self._codec)
        self._loop.call_soon_threadsafe(self._cancel if is_stop else self._start, request)

    def close(self) -> None:
        """Wait for the requests that are being answered."""
        asyncio.run_coroutine_threadsafe(self._wait(), self._loop).result()
        self._looking.cancel()
        self._calls.shutdown()

    async def call(self, function: Callable[..., Any], *values: Any, **named: Any) -> Any:
        """Call what goes to the server, in the thread for that."""
        return await self._loop.run_in_executor(self._calls, partial(function, *values, **named))

    async def look(self) -> None:
        """End the requests whose clients have gone, asking after whom nobody has lately."""
        for answering, sender in list(self._senders.items()):
            try:
                if sender.is_due(ASK_SECONDS) and await self.call(sender.is_cancelled):
                    answering.cancel()
            except Exception as error:  # noqa: BLE001  the others' clients are asked after too
                log.error("cannot ask whether a client is there: %r", error)  # noqa: TRY400

    async def _wait(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self, request: Any) -> None:
        sender = Sender(request.get_response_sender(), threading.Event(), self._clock)
        answering = self._loop.create_task(self._answer(sender, request))
        # Known before the next request, which may be the one that cancels it.
        self._answering[request.request_id()] = answering
        self._senders[answering] = sender
        self._keep(self._end(sender, request, answering))

    def _cancel(self, request: Any) -> None:
        if answering := self._answering.get(request.request_id()):
            answering.cancel()
        sender = Sender(request.get_response_sender(), threading.Event())
        self._keep(self._send_final(sender))

    def _keep(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, sender: Sender, request: Any) -> str:
        if await self.call(sender.is_cancelled):
            return "cancelled"
        async with aclosing(self._generate(read(self._pb_utils, request, self._codec))) as answers:
            async for answer in answers:
                if not await self.call(self._send, sender, answer):
                    return "cancelled"
        return "finished"

    def _send(self, sender: Sender, answer: Answer) -> bool:
        """Send an answer, unless nobody wants it any more."""
        if sender.is_cancelled(ASK_SECONDS):
            return False
        sender.send(response(self._pb_utils, answer))
        return True

    async def _end(self, sender: Sender, request: Any, answering: asyncio.Task[str]) -> None:
        """Wait for the answer's end and say how it was; this task itself is never cancelled."""
        await asyncio.wait({answering})
        del self._senders[answering]
        if self._answering.get(request.request_id()) is answering:
            del self._answering[request.request_id()]
        outcome = "cancelled"
        try:
            if not answering.cancelled():
                if error := answering.exception():
                    outcome, words = failure(self._pb_utils, request, error)
                    await self.call(sender.send, words)
                else:
                    outcome = answering.result()
        finally:
            await self._send_final(sender)
            await self.call(self._outcomes.count, outcome)

    async def _send_final(self, sender: Sender) -> None:
        await self.call(sender.send, flags=self._pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
