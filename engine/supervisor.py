"""Keeps a tritonserver speaking: notices what Triton does not, and brings the model back."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.server import TritonServer

WATCH_SECONDS = 0.25
SILENT_SECONDS = 10.0
"""A server that crashed can hang in its own signal handler (seen on 2.51)."""
PROBE_TEXT = "Yes."

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Patience:
    """How long the supervisor waits.

    A probe stands in line with the requests of a loaded model, so its limit must be generous:
    it catches a model that hangs. One that died is seen within WATCH_SECONDS, even meanwhile.
    """

    start_seconds: float = 120.0
    probe_every_seconds: float = 30.0
    probe_seconds: float = 60.0


class Probe(threading.Thread):
    """Has speech models speak, beside the watch over the processes; then `failures` is complete.

    That goes through the models which they call, too.
    """

    def __init__(self, server: TritonServer, models: Sequence[str], timeout_seconds: float) -> None:
        super().__init__(name="probe", daemon=True)
        self.failures: dict[str, EngineError] = {}
        self._server = server
        self._models = models
        self._timeout_seconds = timeout_seconds

    def run(self) -> None:
        """Speak with each model. One that finishes other requests meanwhile is only busy."""
        control = self._server.control
        for model in self._models:
            before = control.finished_requests(model)
            try:
                control.speak(model, PROBE_TEXT, self._timeout_seconds)
            except EngineError as error:
                after = control.finished_requests(model)
                if after is None or after == before:
                    self.failures[model] = error


class Supervisor:
    """Watches the stubs of a server, and now and then has each speech model really speak."""

    def __init__(self, server: TritonServer, patience: Patience) -> None:
        self._speakers: list[str] = []
        self._server = server
        self._patience = patience

    def start(self) -> None:
        """Start the server, have each speech model speak once; raises EngineError if one cannot."""
        self._server.start(self._patience.start_seconds)
        control = self._server.control
        self._speakers = [model for model in self._server.models if control.speaks(model)]
        self._speak()

    def run(self) -> None:
        """Watch for ever; raises ServerDiedError if the server ends by itself."""
        probe, due = None, time.monotonic() + self._patience.probe_every_seconds
        answered_at_seconds = time.monotonic()
        while True:
            time.sleep(WATCH_SECONDS)
            self._server.check_alive()
            self._server.look_after_files()
            if self._server.control.is_ready():
                answered_at_seconds = time.monotonic()
            elif time.monotonic() - answered_at_seconds > SILENT_SECONDS:
                self._restart(f"the server was not ready for {SILENT_SECONDS:g} s")
                answered_at_seconds = time.monotonic()
            for model in self._server.dead_models():
                log.error("engine.stub_died model=%s", model)
                self.recover(model)
                probe = None  # It may be waiting for the dead one.
            if probe is None and time.monotonic() >= due:
                probe = Probe(self._server, self._speakers, self._patience.probe_seconds)
                probe.start()
            if probe is not None and not probe.is_alive():
                self._recover_silent(probe.failures)
                probe, due = None, time.monotonic() + self._patience.probe_every_seconds

    def _recover_silent(self, failures: Mapping[str, EngineError]) -> None:
        for model, error in failures.items():
            self._server.check_alive()
            log.error("engine.probe_failed model=%s reason=%s", model, error)
            self.recover(model)

    def recover(self, model: str) -> None:
        """Reload the model, else restart the server; raises EngineError if both fail."""
        try:
            self._server.reload(model)
            self._speak()
            log.warning("engine.model_reloaded model=%s", model)
        except EngineError as error:
            self._server.check_alive()
            self._restart(str(error))

    def _restart(self, reason: str) -> None:
        log.error("engine.restarting_server reason=%s", reason)
        self._server.stop(patience_seconds=1.0)
        self.start()

    def _speak(self) -> None:
        for model in self._speakers:
            self._server.control.speak(model, PROBE_TEXT, self._patience.probe_seconds)
