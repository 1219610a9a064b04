"""One call of the language model: a stream of tokens that is drained as it comes."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np

from speech_backend.loopback.siblings import StageError, call_failed, stage_failed

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from speech_backend.loopback.siblings import Sibling

FINAL = "triton_final_response"


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

    A thread drains it. To stop the model, `stop` (a request with the same id) goes over the
    same stream, which is then read to its end by that thread: cancelling an RPC that the server
    writes to can crash Triton 2.51. Only a stream that does not end within `stop_seconds` is
    cancelled.
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
        self._changed = threading.Condition()
        self._arrays: list[npt.NDArray[np.int32]] = []
        self._failure: Exception | None = None
        self._is_answered = self._is_closed = self._has_ended = False
        self._heard_at = self._clock()
        self._outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._outgoing.put(first)
        # gRPC takes requests from a thread of its own; None closes our side of the stream.
        self._call = infer(iter(self._outgoing.get, None))
        self._thread = threading.Thread(target=self._drain, name="drain-tokens", daemon=True)
        self._thread.start()

    def read(self, timeout_seconds: float) -> npt.NDArray[np.int32] | None:
        """See stages.TokenStream.read."""
        with self._changed:
            self._changed.wait_for(lambda: self._arrays or self._is_answered, timeout_seconds)
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
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            # After an answer our side is closed already, and this is not sent.
            self._outgoing.put(self._stop)
            self._outgoing.put(None)
            if self._has_ended:
                return
            self._watchdog = threading.Timer(self._patience.stop_seconds, self._call.cancel)
            self._watchdog.daemon = True
            self._watchdog.start()

    @property
    def has_ended(self) -> bool:
        """Whether nothing of the call is left."""
        return self._has_ended

    def join(self, timeout_seconds: float) -> None:
        """Wait for the end of a stream that is closed."""
        self._thread.join(timeout_seconds)

    def _drain(self) -> None:
        failure: Exception = StageError(
            f"model '{self._model.name}' ended its stream without a final response"
        )
        try:
            for message in self._call:
                self._take(message)
        except grpc.RpcError as error:
            failure = call_failed(self._model.name, error)
        finally:
            # Nothing is left to cancel, unless a message could not even be taken apart.
            self._call.cancel()
            self._end(failure)

    def _end(self, failure: Exception) -> None:
        with self._changed:
            self._answer(failure)
            self._has_ended = True
            if self._is_closed:
                self._watchdog.cancel()

    def _take(self, message: Any) -> None:
        response, failure = message.infer_response, None
        ids = np.zeros(0, np.int32)
        if message.error_message:
            failure = stage_failed(self._model.name, message.error_message)
        else:
            try:
                ids = self._new_ids(response)
            except StageError as error:
                failure = error
        with self._changed:
            self._heard_at = self._clock()
            if len(ids):
                self._arrays.append(ids)
                self._changed.notify_all()
            if failure is not None or response.parameters[FINAL].bool_param:
                self._answer(failure)

    def _answer(self, failure: Exception | None) -> None:
        """Note the end of the answer; the first one counts."""
        if self._is_answered:
            return
        self._is_answered, self._failure = True, failure
        self._changed.notify_all()
        # Ours is closed too: the server then ends the stream.
        self._outgoing.put(None)

    def _new_ids(self, response: Any) -> npt.NDArray[np.int32]:
        self._model.check_id(response, self._stop.id)
        if not response.outputs:
            return np.zeros(0, np.int32)
        ids = self._model.output(response, "output_ids").astype(np.int32)
        return ids[: int(self._model.output(response, "sequence_length")[0])]
