"""Many requests at once in one process, each in a thread of its own."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from speech_backend.serving import SPEECH, Outcomes, Sender, is_cancel, serve

if TYPE_CHECKING:
    from concurrent.futures import Future

    from speech_backend.serving import Codec, Synthesize


@dataclass(eq=False)
class _Accepted:
    """A request, its wish to be cancelled, and its turn in a thread."""

    request: Any
    cancelled: threading.Event = field(default_factory=threading.Event)
    turn: Future[None] | None = None


class RequestThreads:
    """Answers Triton's requests in at most `threads` threads, the others wait in line.

    A request that carries CANCEL_PARAMETER, or whose `codec.stop_input` is true, cancels the one
    with the same id. Triton hands requests of one stream over in order, so that one is known by
    then.
    """

    def __init__(
        self,
        pb_utils: Any,
        model: str,
        synthesize: Synthesize,
        threads: int,
        codec: Codec = SPEECH,
    ) -> None:
        self._pb_utils = pb_utils
        self._synthesize = synthesize
        self._codec = codec
        self._outcomes = Outcomes(pb_utils, model)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="speak")
        self._running: dict[str, _Accepted] = {}

    def accept(self, request: Any) -> None:
        """Take a request and return at once; its sender answers from a thread."""
        if is_cancel(self._pb_utils, request, self._codec):
            self._cancel(request)
            return
        accepted = _Accepted(request)
        self._running[request.request_id()] = accepted
        accepted.turn = self._threads.submit(self._answer, accepted)

    def close(self) -> None:
        """Wait for the requests that are being answered."""
        self._threads.shutdown()

    def _cancel(self, request: Any) -> None:
        if accepted := self._running.get(request.request_id()):
            accepted.cancelled.set()
            # One that still waits ends now: whoever cancelled it waits for its end.
            if accepted.turn is not None and accepted.turn.cancel():
                self._answer(accepted)
        final = self._pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        Sender(request.get_response_sender(), threading.Event()).send(flags=final)

    def _answer(self, accepted: _Accepted) -> None:
        request, cancelled = accepted.request, accepted.cancelled
        request_id = request.request_id()
        try:
            outcome = serve(self._pb_utils, request, self._synthesize, cancelled, self._codec)
            self._outcomes.count(outcome)
        finally:
            if self._running.get(request_id) is accepted:
                del self._running[request_id]
