"""Runs another program: its output is seen as it comes, its end is ours."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LAST_LINES = 20
PASSED_ON = (signal.SIGINT, signal.SIGTERM)
KILLED_BY_SIGNAL = 128
POLL_SECONDS = 0.1
READ_SECONDS = 5.0
"""For the last lines of a program that has ended; what it started may hold its output for ever."""

# Whoever is killed with SIGKILL cannot end what it started, and that would go on.
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")


class ToolError(EngineError):
    """A program failed; `exit_code` is its own, 128 and the signal's number where one ended it."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def run_tool(command: Sequence[str], variables: Mapping[str, str] | None = None) -> None:
    """Run a program to its end and print what it prints; call this in the main thread.

    `variables` are added to its environment. SIGINT and SIGTERM go to the program and all that it
    has started, and what is left of those ends with it. Raises ToolError with its last lines if
    it does not end with 0.
    """
    lines: deque[str] = deque(maxlen=LAST_LINES)
    process = _started(command, variables or {})
    with _signals_passed_on(process):
        reader = threading.Thread(target=_show, args=(process, lines), daemon=True)
        reader.start()
        # A signal that comes just before a wait without end would be passed on after it. And until
        # the program is waited for, below, its number is nobody else's.
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            time.sleep(POLL_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        reader.join(READ_SECONDS)
    if code != 0:
        ended = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        last = "".join(f"  {line.rstrip()}\n" for line in lines) or "  (nothing)\n"
        raise ToolError(
            f"{command[0]} {ended}. Its last lines:\n{last}The command was: {shlex.join(command)}",
            KILLED_BY_SIGNAL - code if code < 0 else code,
        )


def _started(command: Sequence[str], variables: Mapping[str, str]) -> subprocess.Popen[str]:
    if shutil.which(command[0]) is None:
        raise EngineError(
            f"{command[0]} cannot be started: it is not on PATH, or no program; it comes with "
            "TensorRT-LLM, in the image that `all --dry-run` names"
        )
    given = [f"{name}={value}" for name, value in variables.items()]
    return subprocess.Popen(
        [*DIE_WITH_PARENT, *(["env", *given] if given else []), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )


def _show(process: subprocess.Popen[str], lines: deque[str]) -> None:
    assert process.stdout is not None  # noqa: S101  it is a pipe
    with process.stdout as output:
        for line in output:
            lines.append(line)
            sys.stdout.write(line)
            sys.stdout.flush()


@contextmanager
def _signals_passed_on(process: subprocess.Popen[str]) -> Iterator[None]:
    def pass_on(number: int, _: Any) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)

    before = {number: signal.signal(number, pass_on) for number in PASSED_ON}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
