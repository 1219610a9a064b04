"""One ModelStreamInfer call: a request in, data responses out, nothing left behind.

tritonclient's own stream drops the flag that asks for FINAL and the ids of errors, so this is
the raw stub. That the RPC ends with OK proves nothing; only FINAL does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc.aio

from gateway.backend.classify import classify
from gateway.errors import BackendUnavailableError, SpeechError
from gateway.speech.deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine, Sequence
    from contextlib import AbstractAsyncContextManager

    from tritonclient.grpc import service_pb2

log = logging.getLogger("speech")

WIND_DOWN_SECONDS = 5.0
"""How long a model may take to obey a cancel before its RPC is cut."""
READ_AHEAD = 4
"""How many responses wait here for one who is slower than the model."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How long Triton may be silent before its first response, and between two."""

    first_response_seconds: float
    gap_seconds: float


class StreamCaller:
    """Makes the calls, and sees to it that those given up come to their end.

    Cancelling an RPC while the server writes to it crashes Triton 2.51 within some 500 to
    1 500 cancels. So a model that takes a cancel request gets one, over the same stream, and
    the call is read to its end; only what does not end so is cancelled.
    """

    def __init__(self, stub: Any, limits: StreamLimits) -> None:
        self._stub = stub
        self._limits = limits
        self._winding_down: set[asyncio.Task[None]] = set()

    async def stream(
        self,
        request: service_pb2.ModelInferRequest,
        cancel: service_pb2.ModelInferRequest | None,
        deadline: Deadline,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> AsyncGenerator[service_pb2.ModelInferResponse, None]:
        """Yield the data responses of `request`; return after FINAL.

        Raises SpeechError for every other ending. In every ending the model is told to stop, by
        `cancel` or by cancelling the call: the server would otherwise go on making audio that
        nobody hears.
        """
        # The deadline is ours to keep; gRPC's own, a little later, ends what we cannot.
        rpc_seconds = deadline.remaining_seconds() + WIND_DOWN_SECONDS
        call = _Call(self._stub.ModelStreamInfer(timeout=rpc_seconds, metadata=metadata), request)
        patience_seconds = self._limits.first_response_seconds
        try:
            while not call.is_answered:
                if not call.has_news:
                    async with _patience(patience_seconds, deadline):
                        await call.news()
                response = call.take()
                if response.outputs:
                    yield response
                    patience_seconds = self._limits.gap_seconds
        finally:
            self._spawn(call.wind_down(cancel))

    async def aclose(self) -> None:
        """Wait until the calls that were given up have ended."""
        while self._winding_down:
            await asyncio.wait(self._winding_down)

    def _spawn(self, winding_down: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(winding_down)
        self._winding_down.add(task)
        task.add_done_callback(self._winding_down.discard)


class _Call:
    """An RPC in a task of its own, which goes on when the one who waits for it is cancelled.

    gRPC would cancel the RPC with him, at a moment that is not ours to choose.
    """

    def __init__(self, call: Any, request: service_pb2.ModelInferRequest) -> None:
        self._call = call
        self._arrived: deque[service_pb2.ModelStreamInferResponse] = deque()
        self._has_news = asyncio.Event()
        self._is_wanted = asyncio.Event()
        self._is_written = asyncio.Event()
        self._is_given_up = False
        self._ending: SpeechError | None = None
        self.is_answered = False
        self._running = asyncio.ensure_future(self._run(request))
        self._running.add_done_callback(self._ended)

    @property
    def has_news(self) -> bool:
        """Whether `take` has something to say."""
        return bool(self._arrived) or self._running.done()

    async def news(self) -> None:
        """Ask for more, and return once there is some."""
        self._has_news.clear()
        self._is_wanted.set()
        await self._has_news.wait()

    def take(self) -> service_pb2.ModelInferResponse:
        """Return the next response; raises SpeechError where there is none."""
        if not self._arrived:
            raise self._reason()
        message = self._arrived.popleft()
        self.is_answered = bool(message.error_message) or _is_final(message.infer_response)
        if message.error_message:
            raise classify(None, message.error_message)
        return message.infer_response

    async def wind_down(self, cancel: service_pb2.ModelInferRequest | None) -> None:
        """End the call: read what still comes, after a cancel if the answer is not complete."""
        self._is_given_up = True
        self._is_wanted.set()
        try:
            if cancel is not None or self.is_answered:
                async with Deadline.after(WIND_DOWN_SECONDS).limit("the model did not stop"):
                    await self._read_to_the_end(None if self.is_answered else cancel)
        except Exception as error:  # noqa: BLE001  gRPC has many for a call that ends meanwhile
            log.debug("triton.call_not_wound_down", extra={"fields": {"reason": repr(error)}})
        self._call.cancel()
        # Whatever was still going on ends with the call, and its error is nobody's.
        await asyncio.gather(self._running, return_exceptions=True)

    async def _read_to_the_end(self, cancel: service_pb2.ModelInferRequest | None) -> None:
        await self._is_written.wait()
        if cancel is not None:
            await self._call.write(cancel)
        await self._call.done_writing()
        await asyncio.wait({self._running})

    async def _run(self, request: service_pb2.ModelInferRequest) -> None:
        """Write the request and read the responses: the first when it is wanted, and the next.

        From then on READ_AHEAD of them are kept; the others wait in gRPC, and so at the model.
        """
        await self._call.write(request)
        self._is_written.set()
        is_first = True
        while True:
            await self._is_wanted.wait()
            message = await self._call.read()
            if message is grpc.aio.EOF:
                break
            if self._is_given_up:
                continue
            self._arrived.append(message)
            if is_first or len(self._arrived) >= READ_AHEAD:
                self._is_wanted.clear()
            is_first = False
            self._has_news.set()
        if not self._is_given_up:
            self._ending = await self._broken_off()

    def _ended(self, _: asyncio.Future[None]) -> None:
        self._has_news.set()
        self._is_written.set()

    def _reason(self) -> SpeechError:
        try:
            self._running.result()
        except grpc.aio.AioRpcError as error:
            return classify(error.code(), error.details() or "")
        return self._ending or BackendUnavailableError("the call to Triton was given up")

    async def _broken_off(self) -> SpeechError:
        code = await self._call.code()
        if code is not grpc.StatusCode.OK:
            return classify(code, await self._call.details() or "")
        return BackendUnavailableError(
            "Triton ended the stream before the speech was complete", detail="EOF without FINAL"
        )


def _is_final(response: service_pb2.ModelInferResponse) -> bool:
    parameters = response.parameters
    return "triton_final_response" in parameters and bool(
        parameters["triton_final_response"].bool_param
    )


def _patience(seconds: float, deadline: Deadline) -> AbstractAsyncContextManager[None]:
    return deadline.limit(f"Triton was silent for {seconds:g} s", seconds)
