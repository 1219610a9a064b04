"""The stub processes of a tritonserver: each runs one instance of a Python model.

Triton does not notice when one dies: the model stays "ready" and is never started again. And a
stub that is busy when its server dies waits for it for ever, with all its memory.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

STUB = "triton_python_backend_stub"
STARTING = ("bash", STUB[:15])
"""What a stub is called that has ended, bash being what starts it: of a process without a command
line the kernel knows 15 characters."""


class Stubs:
    """Watches the stubs of one server process."""

    def __init__(self, server_pid: int) -> None:
        self._server_pid = server_pid
        self._models: dict[psutil.Process, str] = {}

    def lost(self) -> list[str]:
        """Return the models of which a stub has died since the last call."""
        alive = {stub: model for stub in self._children() if (model := _model(stub))}
        lost = {model for stub, model in self._models.items() if stub not in alive}
        self._models = alive
        return sorted(lost)

    def kill(self, model: str | None = None) -> None:
        """Kill the known stubs of `model`, or of all, and forget them."""
        for stub, name in list(self._models.items()):
            if model in (None, name):
                del self._models[stub]
                with suppress(psutil.NoSuchProcess):
                    stub.kill()

    def has_failed_to_start(self) -> bool:
        """Whether a stub has already ended, of which Triton goes on to wait for an answer.

        While it loads models it also runs a `sh` now and then, whose end it notices itself.
        """
        for child in self._children():
            with suppress(psutil.NoSuchProcess):
                if child.status() == psutil.STATUS_ZOMBIE and child.name() in STARTING:
                    return True
        return False

    def _children(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._server_pid).children()
        except psutil.NoSuchProcess:
            return []


def kill_orphans(region_prefix: str) -> None:
    """Kill the stubs of a run that is over, by the shared memory that they were given."""
    for process in psutil.process_iter():
        arguments = _stub_arguments(process)
        if any(argument.startswith(region_prefix) for argument in arguments):
            with suppress(psutil.Error):
                process.kill()


def _model(stub: psutil.Process) -> str | None:
    # The first argument is <repository>/<model>/<version>/model.py.
    arguments = _stub_arguments(stub)
    return Path(arguments[0]).parents[1].name if arguments else None


def _stub_arguments(process: psutil.Process) -> list[str]:
    try:
        command = process.cmdline()
    except psutil.Error:  # a zombie has no command line, one that has gone no process
        return []
    return command[1:] if command and Path(command[0]).name == STUB else []
