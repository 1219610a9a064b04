"""One call of the language model: a stream of tokens that is drained as it comes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import numpy as np

from speech_backend.loopback.siblings import call_failed, stage_failed
from speech_backend.stages import StageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import numpy.typing as npt

    from speech_backend.loopback.siblings import Sibling

FINAL = "triton_final_response"

REFUSALS = ("Server is stopping", "has no available versions")
"""What Triton 2.51 says of every request, a `stop` too, once it is told to end."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: silence of the language model, its end after a stop, a whole call of another.

    Silence includes waiting in the model's queue. Callers notice one earlier (the gateway after
    10 s, before the first sound 30 s) and cancel; these limits end what nobody waits for.
    """

    stall_seconds: float = 30.0
    stop_seconds: float = 5.0
    call_seconds: float = 60.0


class TokenCall:
    """A stages.TokenStream over one ModelStreamInfer.

    A task drains it, which nobody cancels: gRPC would cancel the RPC with a reader. To stop the
    model, `stop` (a request with the same id) goes over the same stream, which is then read to
    its end by that task: cancelling an RPC that the server writes to can crash Triton 2.51. Only
    a stream that does not end within `stop_seconds`, or whose `stop` a server that ends refuses,
    is cancelled.
    """

    def __init__(
        self,
        infer: Callable[..., Any],
        model: Sibling,
        requests: tuple[Any, Any],
        patience: Patience,
        clock: Callable[[], float],
    ) -> None:
        self._model = model
        first, self._stop = requests
        self._patience = patience
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._arrays: list[npt.NDArray[np.int32]] = []
        self._failure: Exception | None = None
        self._is_answered = self._is_closed = False
        self._heard_at = self._clock()
        self._reader: asyncio.Future[None] | None = None
        self._watchdog: asyncio.TimerHandle | None = None
        self._outgoing: asyncio.Queue[Any] = asyncio.Queue()
        self._outgoing.put_nowait(first)
        self._call = infer(self._requests())
        self._draining = self._loop.create_task(self._drain())

    async def read(self, timeout_seconds: float) -> npt.NDArray[np.int32] | None:
        """See stages.TokenStream.read."""
        if not self._has_news and timeout_seconds > 0:
            await self._wait(timeout_seconds)
        if self._arrays:
            ids = np.concatenate(self._arrays)
            self._arrays.clear()
            return ids
        if self._failure is not None:
            raise self._failure
        if self._is_answered:
            return None
        silent_seconds = self._clock() - self._heard_at
        if silent_seconds > self._patience.stall_seconds:
            raise StageError(f"model '{self._model.name}' wrote nothing for {silent_seconds:.1f} s")
        return np.zeros(0, np.int32)

    def close(self) -> None:
        """See stages.TokenStream.close; returns at once."""
        if self._is_closed:
            return
        self._is_closed = True
        # After an answer our side is closed already, and this is not sent.
        self._outgoing.put_nowait(self._stop)
        self._outgoing.put_nowait(None)
        if not self.has_ended:
            cut = self._call.cancel
            self._watchdog = self._loop.call_later(self._patience.stop_seconds, cut)

    @property
    def has_ended(self) -> bool:
        """Whether nothing of the call is left."""
        return self._draining.done()

    async def ended(self) -> None:
        """Wait for the end of the stream."""
        await asyncio.wait({self._draining})

    @property
    def _has_news(self) -> bool:
        return bool(self._arrays) or self._is_answered

    async def _wait(self, timeout_seconds: float) -> None:
        """Wait for news; a timer of the loop costs a fraction of asyncio's own timeouts."""
        self._reader = self._loop.create_future()
        alarm = self._loop.call_later(timeout_seconds, self._wake)
        try:
            await self._reader
        finally:
            alarm.cancel()
            self._reader = None

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def _requests(self) -> AsyncIterator[Any]:
        """Give gRPC what is to be sent; its end closes our side of the stream."""
        while (request := await self._outgoing.get()) is not None:
            yield request

    async def _drain(self) -> None:
        failure: Exception = StageError(
            f"model '{self._model.name}' ended its stream without a final response"
        )
        try:
            while (message := await self._call.read()) is not grpc.aio.EOF:
                self._take(message)
        except grpc.RpcError as error:
            failure = call_failed(self._model.name, error)
        except asyncio.CancelledError:
            failure = StageError(f"the call of model '{self._model.name}' was cut")
        finally:
            # Nothing is left to cancel, unless this task itself was.
            self._call.cancel()
            self._answer(failure)
            if self._watchdog is not None:
                self._watchdog.cancel()

    def _take(self, message: Any) -> None:
        if self._is_closed and any(words in message.error_message for words in REFUSALS):
            # Nothing is left to stop the model with; to wait for it would hold the server's end up.
            self._call.cancel()
        if self._is_answered:
            return
        self._heard_at = self._clock()
        if message.error_message:
            self._answer(stage_failed(self._model.name, message.error_message))
            return
        response = message.infer_response
        is_final = response.parameters[FINAL].bool_param
        try:
            ids = self._new_ids(response)
        except StageError as error:
            if not is_final:
                # The model writes on, and after our end of the stream nothing could stop it.
                self._outgoing.put_nowait(self._stop)
            self._answer(error)
            return
        if len(ids):
            self._arrays.append(ids)
            self._wake()
        if is_final:
            self._answer(None)

    def _answer(self, failure: Exception | None) -> None:
        """Note the end of the answer; the first one counts."""
        if self._is_answered:
            return
        self._is_answered, self._failure = True, failure
        self._wake()
        # Ours is closed too: the server then ends the stream.
        self._outgoing.put_nowait(None)

    def _new_ids(self, response: Any) -> npt.NDArray[np.int32]:
        """Return the ids of a message; raises StageError, whatever is wrong with it."""
        self._model.check_id(response, self._stop.id)
        if not response.outputs:
            return np.zeros(0, np.int32)
        try:
            ids = self._model.output(response, "output_ids").astype(np.int32)
            return ids[: int(self._model.output(response, "sequence_length")[0])]
        except StageError:
            raise
        except Exception as error:
            raise StageError(
                f"model '{self._model.name}' wrote what cannot be read: {error!r}"
            ) from error
