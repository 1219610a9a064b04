"""Many requests at once in one process, each in a thread of its own."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from speech_backend.serving import Outcomes, Sender, serve
from speech_wire import CANCEL_PARAMETER

if TYPE_CHECKING:
    from speech_backend.serving import Synthesize


class RequestThreads:
    """Answers Triton's requests in at most `threads` threads, the others wait in line.

    A request that carries CANCEL_PARAMETER cancels the one with the same id. Triton hands
    requests of one stream over in order, so that one is known by then.
    """

    def __init__(self, pb_utils: Any, model: str, synthesize: Synthesize, threads: int) -> None:
        self._pb_utils = pb_utils
        self._synthesize = synthesize
        self._outcomes = Outcomes(pb_utils, model)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="speak")
        self._running: dict[str, threading.Event] = {}

    def accept(self, request: Any) -> None:
        """Take a request and return at once; its sender answers from a thread."""
        if CANCEL_PARAMETER in json.loads(request.parameters() or "{}"):
            self._cancel(request)
            return
        cancelled = threading.Event()
        self._running[request.request_id()] = cancelled
        self._threads.submit(self._answer, request, cancelled)

    def close(self) -> None:
        """Wait for the requests that are being answered."""
        self._threads.shutdown()

    def _cancel(self, request: Any) -> None:
        if cancelled := self._running.get(request.request_id()):
            cancelled.set()
        final = self._pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        Sender(request.get_response_sender(), threading.Event()).send(flags=final)

    def _answer(self, request: Any, cancelled: threading.Event) -> None:
        request_id = request.request_id()
        try:
            self._outcomes.count(serve(self._pb_utils, request, self._synthesize, cancelled))
        finally:
            if self._running.get(request_id) is cancelled:
                del self._running[request_id]
