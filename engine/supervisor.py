"""Keeps a tritonserver speaking: notices what Triton does not, and brings the model back."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from engine.errors import EngineError

if TYPE_CHECKING:
    import threading

    from engine.server import TritonServer

WATCH_SECONDS = 0.25
PROBE_EVERY_SECONDS = 30.0
PROBE_TIMEOUT_SECONDS = 60.0
"""A probe waits in line with the requests of a loaded model, so it must be patient: the limit
catches a model that hangs. One that died is seen within WATCH_SECONDS."""
PROBE_TEXT = "Yes."

log = logging.getLogger(__name__)


class Supervisor:
    """Watches the stubs of a server, and now and then has each model really speak."""

    def __init__(self, server: TritonServer, start_timeout_seconds: float) -> None:
        self._server = server
        self._start_timeout_seconds = start_timeout_seconds

    def start(self) -> None:
        """Start the server and have every model speak once; raises EngineError if one cannot."""
        self._server.start(self._start_timeout_seconds)
        for model in self._server.models:
            self._speak(model)

    def run(self, stop: threading.Event) -> None:
        """Watch until `stop` is set; raises ServerDiedError if the server ends by itself."""
        next_probe = time.monotonic() + PROBE_EVERY_SECONDS
        while not stop.wait(WATCH_SECONDS):
            self._server.check_alive()
            for model in self._server.dead_models():
                log.error("engine.stub_died model=%s", model)
                self.recover(model)
            if time.monotonic() >= next_probe:
                self.probe()
                next_probe = time.monotonic() + PROBE_EVERY_SECONDS

    def probe(self) -> None:
        """Have every model speak; recover those that do not."""
        for model in self._server.models:
            try:
                self._speak(model)
            except EngineError as error:
                self._server.check_alive()
                log.error("engine.probe_failed model=%s reason=%s", model, error)  # noqa: TRY400  the reason says it
                self.recover(model)

    def recover(self, model: str) -> None:
        """Reload the model, else restart the server; raises EngineError if both fail."""
        try:
            self._server.reload(model)
            self._speak(model)
            log.warning("engine.model_reloaded model=%s", model)
        except EngineError as error:
            self._server.check_alive()
            log.error("engine.restarting_server model=%s reason=%s", model, error)  # noqa: TRY400  the reason says it
            self._server.stop()
            self.start()

    def _speak(self, model: str) -> None:
        self._server.control.speak(model, PROBE_TEXT, PROBE_TIMEOUT_SECONDS)
