"""The adapter between Triton's Python backend and a function that yields answers.

`pb_utils` exists only inside the server, so it is an argument here, and a small fake drives
the same code in tests.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import math
import os
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from speech_backend.stages import StageError
from speech_wire import CANCEL_PARAMETER, INPUTS, INVALID_INPUT, SynthesisRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from speech_wire import Tensors, TensorSpec


class Answer(Protocol):
    """One response of a model, such as a PcmChunk."""

    def to_tensors(self) -> Tensors:
        """Return the output tensors by name."""
        ...


Synthesize: TypeAlias = "Callable[[Any], Generator[Answer, None, None]]"


@dataclass(frozen=True, slots=True)
class Codec:
    """How a model's requests are read: `read` gets the tensors of `inputs` that were sent.

    `stop_input` names a BOOL input: where it is true, the request cancels the one with the same
    id, as with tensorrt_llm.
    """

    inputs: tuple[TensorSpec, ...]
    read: Callable[[Tensors], Any]
    stop_input: str | None = None


SPEECH = Codec(INPUTS, SynthesisRequest.from_tensors)

log = logging.getLogger(__name__)

WATCH_SECONDS = 1.0
STUCK_SECONDS = 8.0

# One call from a model to its server at a time. On 2.51, calls from several threads while
# clients hang up crash the server; figures in triton/README.md. A call takes some 0.3 ms.
CALL = threading.Lock()
OUTCOMES = ("finished", "cancelled", "invalid", "failed")


class InvalidInputError(ValueError):
    """The caller asked for something that the model cannot say; the message is for the caller."""


class Outcomes:
    """Counts how requests end, as a Triton custom metric.

    Triton's own statistics count the cancelled and failed requests of a decoupled model as
    successes (measured on 2.51), so a model keeps its own.
    """

    def __init__(self, pb_utils: Any, model: str) -> None:
        # Kept, since the server drops the metrics of a family that is garbage collected.
        self._family = pb_utils.MetricFamily(
            name="speech_model_requests_total",
            description="Requests that ended in a speech model, by outcome",
            kind=pb_utils.MetricFamily.COUNTER,
        )
        self._counters = {
            outcome: self._family.Metric(labels={"model": model, "outcome": outcome})
            for outcome in OUTCOMES
        }

    def count(self, outcome: str) -> None:
        """Add one request to `outcome`, one of OUTCOMES."""
        with CALL:
            self._counters[outcome].increment(1)


class Sender:
    """A response sender that keeps to one call at a time; `cancelled` ends it too."""

    def __init__(
        self,
        sender: Any,
        cancelled: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sender = sender
        self._cancelled = cancelled
        self._clock = clock
        self._asked_at = -math.inf
        self._has_ended = False

    def is_due(self, since_seconds: float) -> bool:
        """Whether the server was not asked within the last `since_seconds`."""
        return self._clock() - self._asked_at >= since_seconds

    def is_cancelled(self, since_seconds: float = 0.0) -> bool:
        """Whether the client has said that it wants no more, or has gone.

        For the second the server is asked, unless it said no within the last `since_seconds`.
        """
        if self._cancelled.is_set():
            return True
        if not self.is_due(since_seconds):
            return False
        self._asked_at = self._clock()
        with CALL:
            # After its end the server has forgotten the request, and must not be asked about it.
            return self._has_ended or bool(self._sender.is_cancelled())

    def send(self, *response: Any, **flags: Any) -> None:
        """Send a response, or the flag that ends them without one."""
        with CALL:
            self._has_ended = bool(flags)
            self._sender.send(*response, **flags)


def exit_with_server() -> None:
    """End this process soon after the server that started it.

    Triton's stub ends with its server by itself, unless it is sending just then: that waits for
    ever, now and then with the interpreter's lock, and the process keeps its memory. So a timer
    that needs no lock ends the process if this watch does not come round for STUCK_SECONDS.
    """
    server = os.getppid()

    def watch() -> None:
        while os.getppid() == server:
            faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
            time.sleep(WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="exit-with-server", daemon=True).start()


def serve(
    pb_utils: Any,
    request: Any,
    synthesize: Synthesize,
    cancelled: threading.Event,
    codec: Codec = SPEECH,
) -> str:
    """Answer one Triton request with what `synthesize` yields; return the outcome.

    Cancellation is polled before every answer. An error is sent at most once and without a
    traceback; FINAL is sent exactly once, whatever happened.
    """
    sender = Sender(request.get_response_sender(), cancelled)
    outcome = "failed"
    try:
        outcome = _send_answers(
            pb_utils, sender, lambda: synthesize(read(pb_utils, request, codec))
        )
    except Exception as error:  # noqa: BLE001  whatever it is, it belongs to this request
        outcome, words = failure(pb_utils, request, error)
        sender.send(words)
    finally:
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
    return outcome


def _send_answers(
    pb_utils: Any, sender: Sender, start: Callable[[], Generator[Answer, None, None]]
) -> str:
    if sender.is_cancelled():
        return "cancelled"
    with closing(start()) as answers:
        for answer in answers:
            if sender.is_cancelled():
                return "cancelled"
            sender.send(response(pb_utils, answer))
    return "finished"


def is_cancel(pb_utils: Any, request: Any, codec: Codec) -> bool:
    """Whether this request only cancels the one with the same id."""
    if CANCEL_PARAMETER in json.loads(request.parameters() or "{}"):
        return True
    name = codec.stop_input
    stop = pb_utils.get_input_tensor_by_name(request, name) if name else None
    return stop is not None and bool(stop.as_numpy().any())


def read(pb_utils: Any, request: Any, codec: Codec) -> Any:
    """Return what `codec` reads from the tensors of a Triton request."""
    names = [spec.name for spec in codec.inputs]
    found = {name: pb_utils.get_input_tensor_by_name(request, name) for name in names}
    return codec.read(
        {name: tensor.as_numpy() for name, tensor in found.items() if tensor is not None}
    )


def response(pb_utils: Any, answer: Answer) -> Any:
    """Return Triton's response that carries an answer."""
    tensors = [
        pb_utils.Tensor(name, np.ascontiguousarray(array))
        for name, array in answer.to_tensors().items()
    ]
    return pb_utils.InferenceResponse(output_tensors=tensors)


def failure(pb_utils: Any, request: Any, error: BaseException) -> tuple[str, Any]:
    """Return the outcome of a request that raised `error`, and Triton's response that says so."""
    if isinstance(error, InvalidInputError):
        outcome, words = "invalid", f"{INVALID_INPUT}{error}"
    else:
        # A stage's message says all, and a server that stops makes one for each utterance.
        trace = None if isinstance(error, StageError) else error
        log.error("request %s failed: %s", request.request_id(), error, exc_info=trace)
        outcome, words = "failed", f"the model failed: {type(error).__name__}: {error}"
    answer = pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(words))
    return outcome, answer
