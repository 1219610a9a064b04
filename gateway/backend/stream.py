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

from gateway.backend.classify import classify, classify_error
from gateway.errors import BackendTimeoutError, BackendUnavailableError, SpeechError
from gateway.speech.deadline import DEADLINE_HAS_PASSED, Deadline
from gateway.speech.flag import Flag

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence

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
        self._ending: set[asyncio.Future[None]] = set()

    async def stream(
        self,
        request: service_pb2.ModelInferRequest,
        cancel: Callable[[], service_pb2.ModelInferRequest | None],
        deadline: Deadline,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> AsyncGenerator[service_pb2.ModelInferResponse, None]:
        """Yield the data responses of `request`; return after FINAL.

        Raises SpeechError for every other ending. In every ending the model is told to stop, by
        what `cancel` makes or by cancelling the call: the server would otherwise go on making
        audio that nobody hears.
        """
        # The deadline is ours to keep; gRPC's own, a little later, ends what we cannot.
        rpc_seconds = deadline.remaining_seconds() + WIND_DOWN_SECONDS
        call = _Call(self._stub.ModelStreamInfer(timeout=rpc_seconds, metadata=metadata), request)
        patience_seconds = self._limits.first_response_seconds
        try:
            while not call.is_answered:
                if not call.has_news:
                    await call.news(patience_seconds, deadline)
                response = call.take()
                if response.outputs:
                    yield response
                    patience_seconds = self._limits.gap_seconds
                del response
        finally:
            self._await_end(call.running if call.is_read else call.wind_down(cancel()))

    async def aclose(self) -> None:
        """Wait until the calls that nobody reads any more have ended."""
        while self._ending:
            await asyncio.wait(self._ending)

    def _await_end(self, ending: Coroutine[Any, Any, None] | asyncio.Future[None]) -> None:
        task = asyncio.ensure_future(ending)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


class _Call:
    """An RPC in a task of its own, which goes on when the one who waits for it is cancelled.

    gRPC would cancel the RPC with him, at a moment that is not ours to choose.
    """

    def __init__(self, call: Any, request: service_pb2.ModelInferRequest) -> None:
        self._call: Any = call
        self._loop = asyncio.get_running_loop()
        self._arrived: deque[service_pb2.ModelStreamInferResponse] = deque()
        self._has_news = Flag()
        self._is_wanted = Flag()
        self._is_written = Flag()
        self._is_given_up = False
        self._reason: SpeechError | None = None
        self._give_up_at_seconds = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self.is_read = False
        """The model's last word, FINAL or an error, has come, so the call ends by itself."""
        self.is_answered = False
        """It has been taken, too."""
        self.running = asyncio.ensure_future(self._run(request))
        self.running.add_done_callback(self._ended)

    @property
    def has_news(self) -> bool:
        """Whether `take` has something to say."""
        return bool(self._arrived) or self.running.done()

    async def news(self, seconds: float, deadline: Deadline) -> None:
        """Ask for more, and return once there is some; raises BackendTimeoutError.

        One alarm serves all waits of a call: a timeout for each costs more than the wait.
        """
        left_seconds = deadline.remaining_seconds()
        self._give_up_at_seconds = self._loop.time() + min(left_seconds, seconds)
        if self._alarm is None or self._give_up_at_seconds < self._alarm.when():
            self._set_alarm(self._give_up_at_seconds, self._ring)
        self._has_news.clear()
        self._is_wanted.set()
        await self._has_news.wait()
        if not self.has_news:
            silent = f"Triton was silent for {seconds:g} s"
            message = DEADLINE_HAS_PASSED if left_seconds <= seconds else silent
            raise BackendTimeoutError(message, detail=silent)

    def take(self) -> service_pb2.ModelInferResponse:
        """Return the next response; raises SpeechError where there is none."""
        if not self._arrived:
            raise self._why_there_is_no_more()
        message = self._arrived.popleft()
        self.is_answered = _is_last(message)
        if message.error_message:
            raise classify(None, message.error_message)
        return message.infer_response

    async def wind_down(self, cancel: service_pb2.ModelInferRequest | None) -> None:
        """End a call that is not read to its end: by a cancel, and reading what still comes."""
        self._is_given_up = True
        self._is_wanted.set()
        call = self._call
        if call is None:
            return
        try:
            if cancel is not None:
                async with Deadline.after(WIND_DOWN_SECONDS).limit("the model did not stop"):
                    await self._is_written.wait()
                    await call.write(cancel)
                    await call.done_writing()
                    await asyncio.wait({self.running})
        except Exception as error:  # noqa: BLE001  gRPC has many for a call that ends meanwhile
            _log_not_wound_down(repr(error))
        call.cancel()
        # Whatever was still going on ends with the call, and its error is nobody's.
        await asyncio.gather(self.running, return_exceptions=True)

    async def _run(self, request: service_pb2.ModelInferRequest) -> None:
        """Exchange, and keep why that ended, but no error of gRPC's: its frames hold the call."""
        try:
            await self._exchange(request)
        except grpc.aio.AioRpcError as error:
            self._reason = classify_error(error)
        except asyncio.CancelledError:
            pass  # By `cancel` of the call: nobody cancels this task.

    async def _exchange(self, request: service_pb2.ModelInferRequest) -> None:
        """Write the request and read the responses: the first when it is wanted, and the next.

        From then on READ_AHEAD of them are kept; the others wait in gRPC, and so at the model.
        """
        await self._call.write(request)
        self._is_written.set()
        is_first = True
        while not self.is_read:
            await self._is_wanted.wait()
            message = await self._call.read()
            if message is grpc.aio.EOF:
                self._reason = None if self._is_given_up else await self._broken_off()
                return
            if self._is_given_up:
                continue
            self.is_read = _is_last(message)
            self._arrived.append(message)
            if is_first or len(self._arrived) >= READ_AHEAD:
                self._is_wanted.clear()
            is_first = False
            self._has_news.set()
            del message
        await self._finish()

    async def _finish(self) -> None:
        """Say that no request will follow, so that the server ends the call, and wait for that."""
        self._set_alarm(self._loop.time() + WIND_DOWN_SECONDS, self._cut)
        await self._call.done_writing()
        while await self._call.read() is not grpc.aio.EOF:
            pass

    def _set_alarm(self, at_seconds: float, then: Callable[[], None]) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._loop.call_at(at_seconds, then)

    def _ring(self) -> None:
        self._alarm = None
        if self._has_news.is_set():
            return  # Nobody waits.
        if self._loop.time() < self._give_up_at_seconds:
            self._set_alarm(self._give_up_at_seconds, self._ring)
        else:
            self._has_news.set()

    def _cut(self) -> None:
        _log_not_wound_down("the server did not end the call")
        self._call.cancel()

    def _ended(self, running: asyncio.Future[None]) -> None:
        # While a call is held, by an error's frames say, gRPC dials its address, even when the
        # channel is closed.
        self._call = None
        self._has_news.set()
        self._is_written.set()
        if self._alarm is not None:
            self._alarm.cancel()
        # Who still waits asks for the error; else it is nobody's.
        _ = running.cancelled() or running.exception()

    def _why_there_is_no_more(self) -> SpeechError:
        self.running.result()
        # It is not kept, since its frames will hold this call.
        reason, self._reason = self._reason, None
        return reason or BackendUnavailableError("the call to Triton was given up")

    async def _broken_off(self) -> SpeechError:
        code = await self._call.code()
        if code is not grpc.StatusCode.OK:
            return classify(code, await self._call.details() or "")
        return BackendUnavailableError(
            "Triton ended the stream before the speech was complete", detail="EOF without FINAL"
        )


def _is_last(message: service_pb2.ModelStreamInferResponse) -> bool:
    return bool(message.error_message) or _is_final(message.infer_response)


def _is_final(response: service_pb2.ModelInferResponse) -> bool:
    parameters = response.parameters
    return "triton_final_response" in parameters and bool(
        parameters["triton_final_response"].bool_param
    )


def _log_not_wound_down(reason: str) -> None:
    log.debug("triton.call_not_wound_down", extra={"fields": {"reason": reason}})
