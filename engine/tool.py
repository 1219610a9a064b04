"""Runs another program: its output is seen as it comes, its end is ours."""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import subprocess
import sys
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LAST_LINES = 20
PASSED_ON = (signal.SIGINT, signal.SIGTERM)
PR_SET_PDEATHSIG = 1
KILLED_BY_SIGNAL = 128


class ToolError(EngineError):
    """A program failed; `exit_code` is its own, 128 and the signal's number where one ended it."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def run_tool(command: Sequence[str]) -> None:
    """Run a program to its end and print what it prints; call this in the main thread.

    SIGINT and SIGTERM go to the program and all that it has started. Raises ToolError with its
    last lines if it does not end with 0.
    """
    lines: deque[str] = deque(maxlen=LAST_LINES)
    with _started(command) as process, _signals_passed_on(process):
        assert process.stdout is not None  # noqa: S101  it is a pipe
        for line in process.stdout:
            lines.append(line)
            sys.stdout.write(line)
            sys.stdout.flush()
    code = process.returncode
    if code != 0:
        ended = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        last = "".join(f"  {line.rstrip()}\n" for line in lines) or "  (nothing)\n"
        raise ToolError(
            f"{command[0]} {ended}. Its last lines:\n{last}The command was: {shlex.join(command)}",
            KILLED_BY_SIGNAL - code if code < 0 else code,
        )


def _started(command: Sequence[str]) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509  this process has one thread
        )
    except (FileNotFoundError, PermissionError) as error:
        raise EngineError(
            f"{command[0]} cannot be started ({error.strerror}); it comes with TensorRT-LLM, in "
            "the image that `all --dry-run` names"
        ) from error


def _die_with_parent() -> None:
    # Whoever is killed with SIGKILL cannot end what it started, and that would go on writing.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


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
