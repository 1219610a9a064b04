"""One ModelStreamInfer call: a request in, data responses out, nothing left behind.

tritonclient's own stream drops the flag that asks for FINAL and the ids of errors, so this is
the raw stub. That the RPC ends with OK proves nothing; only FINAL does.
"""

from __future__ import annotations

import asyncio
import logging
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
        call = _Call(self._stub.ModelStreamInfer(timeout=rpc_seconds, metadata=metadata))
        patience_seconds = self._limits.first_response_seconds
        try:
            async with _patience(patience_seconds, deadline):
                await call.write(request)
            while not call.is_answered:
                async with _patience(patience_seconds, deadline):
                    response = await call.read()
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
    """An RPC whose operations go on when the one who waits for them is cancelled.

    gRPC would cancel the RPC with him, at a moment that is not ours to choose.
    """

    def __init__(self, call: Any) -> None:
        self._call = call
        self._writing: asyncio.Future[Any] | None = None
        self._reading: asyncio.Future[Any] | None = None
        self.is_answered = False

    async def write(self, request: service_pb2.ModelInferRequest) -> None:
        self._writing = asyncio.ensure_future(self._call.write(request))
        try:
            await asyncio.shield(self._writing)
        except grpc.aio.AioRpcError as error:
            raise _ended(error) from error

    async def read(self) -> service_pb2.ModelInferResponse:
        """Return the next response; raises SpeechError where there is none."""
        self._reading = asyncio.ensure_future(self._call.read())
        try:
            message = await asyncio.shield(self._reading)
        except grpc.aio.AioRpcError as error:
            raise _ended(error) from error
        if message is grpc.aio.EOF:
            raise await self._broken_off()
        self.is_answered = bool(message.error_message) or _is_final(message.infer_response)
        if message.error_message:
            raise classify(None, message.error_message)
        return message.infer_response

    async def wind_down(self, cancel: service_pb2.ModelInferRequest | None) -> None:
        """End the call: read what still comes, after a cancel if the answer is not complete."""
        try:
            if cancel is not None or self.is_answered:
                async with Deadline.after(WIND_DOWN_SECONDS).limit("the model did not stop"):
                    await self._read_to_the_end(None if self.is_answered else cancel)
        except Exception as error:  # noqa: BLE001  gRPC has many for a call that ends meanwhile
            log.debug("triton.call_not_wound_down", extra={"fields": {"reason": repr(error)}})
        self._call.cancel()
        # Whatever was still going on ends with the call, and its error is nobody's.
        await asyncio.gather(*self._pending(), return_exceptions=True)

    async def _read_to_the_end(self, cancel: service_pb2.ModelInferRequest | None) -> None:
        if self._writing is not None:
            await asyncio.shield(self._writing)
        if cancel is not None:
            self._writing = asyncio.ensure_future(self._call.write(cancel))
            await asyncio.shield(self._writing)
        await self._call.done_writing()
        message = None if self._reading is None else await asyncio.shield(self._reading)
        while message is not grpc.aio.EOF:
            self._reading = asyncio.ensure_future(self._call.read())
            message = await asyncio.shield(self._reading)

    def _pending(self) -> list[asyncio.Future[Any]]:
        return [operation for operation in (self._writing, self._reading) if operation]

    async def _broken_off(self) -> SpeechError:
        code = await self._call.code()
        if code is not grpc.StatusCode.OK:
            return classify(code, await self._call.details() or "")
        return BackendUnavailableError(
            "Triton ended the stream before the speech was complete", detail="EOF without FINAL"
        )


def _ended(error: grpc.aio.AioRpcError) -> SpeechError:
    return classify(error.code(), error.details() or "")


def _is_final(response: service_pb2.ModelInferResponse) -> bool:
    parameters = response.parameters
    return "triton_final_response" in parameters and bool(
        parameters["triton_final_response"].bool_param
    )


def _patience(seconds: float, deadline: Deadline) -> AbstractAsyncContextManager[None]:
    return deadline.limit(f"Triton was silent for {seconds:g} s", seconds)
