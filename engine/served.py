"""A supervised Triton as another program's child: when it is ready, when it has ended, its end."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING

from engine.errors import EngineError, ServerDiedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

READY = "engine.ready"
"""What `engine serve` logs once each of its models has spoken a word."""
LAST_LINES = 20


class ServedTriton:
    """A process of `engine serve`, whose lines are passed on.

    `on_end` is called when it ends by itself after it was ready.
    """

    def __init__(
        self, command: Sequence[str], stop_seconds: float, on_end: Callable[[], None] = lambda: None
    ) -> None:
        self._command = tuple(command)
        self._stop_seconds = stop_seconds
        self._on_end = on_end
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._is_decided = threading.Event()
        self._is_ready = False
        self._is_stopped = False
        self._process: subprocess.Popen[str] | None = None

    def start(self, timeout_seconds: float) -> None:
        """Return once it is ready; raises EngineError with its last lines if it will not be."""
        self._process = subprocess.Popen(
            self._command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        in_time = self._is_decided.wait(timeout_seconds)
        if not self._is_ready:
            self.stop()
            what = "ended" if in_time else f"was not ready in {timeout_seconds:g} s"
            raise EngineError(self._explain(f"Triton {what} before it served"))

    def is_alive(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def check_alive(self) -> None:
        """Raise ServerDiedError if it has ended."""
        if not self.is_alive():
            raise ServerDiedError(self._explain("Triton has ended"))

    def stop(self) -> None:
        """End it: TERM, on which requests in flight may end, then KILL. Safe to call twice."""
        if self._process is None:
            return
        self._is_stopped = True
        self._process.terminate()
        try:
            self._process.wait(self._stop_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(timeout=1)

    def _read(self) -> None:
        assert self._process is not None  # noqa: S101  see start
        assert self._process.stdout is not None  # noqa: S101  it is a pipe
        with self._process.stdout as lines:
            for line in lines:
                self._lines.append(line.rstrip())
                sys.stdout.write(line)
                if READY in line:
                    self._is_ready = True
                    self._is_decided.set()
        self._process.wait()
        self._is_decided.set()
        if self._is_ready and not self._is_stopped:
            self._on_end()

    def _explain(self, what: str) -> str:
        return "\n  ".join([f"{what}; its last lines:", *self._lines])
