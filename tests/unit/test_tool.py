from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
import pytest

from engine.errors import EngineError
from engine.tool import ToolError, run_tool

if TYPE_CHECKING:
    from pathlib import Path

RUNNER = """
import sys
from engine.tool import ToolError, run_tool
try:
    run_tool([sys.executable, "-c", sys.argv[1]])
except ToolError as error:
    print("ended", error.exit_code, flush=True)
"""
DAEMON = """
import subprocess, sys
print("daemon", subprocess.Popen(["sleep", "600"], start_new_session=SESSION).pid)
"""
CHILD = """
import os, signal, subprocess, sys
grandchild = subprocess.Popen(["sleep", "600"])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
print("running", os.getpid(), grandchild.pid, flush=True)
# A signal goes to both. To wait for the signal itself could begin when it has come already.
grandchild.wait()
while True:
    signal.pause()
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_output_is_passed_on_line_by_line(capfd: pytest.CaptureFixture[str]) -> None:
    run_tool(python("import sys; print('out'); sys.stdout.flush(); print('err', file=sys.stderr)"))

    assert capfd.readouterr().out == "out\nerr\n"


def test_a_failure_has_the_last_lines_and_the_exit_code() -> None:
    with pytest.raises(ToolError) as caught:
        run_tool(python("for i in range(50): print(f'line {i}')\nraise SystemExit(5)"))

    assert caught.value.exit_code == 5
    assert "ended with 5. Its last lines:\n  line 30\n  line 31\n" in str(caught.value)
    assert "  line 49\nThe command was: " in str(caught.value)


def test_a_signal_that_ends_a_tool_is_named() -> None:
    with pytest.raises(
        ToolError, match=r"was ended by SIGKILL\. Its last lines:\n  \(nothing\)"
    ) as x:
        run_tool(python("import os; os.kill(os.getpid(), 9)"))

    assert x.value.exit_code == 137


def test_bytes_that_are_no_text_do_not_stop_it(capfd: pytest.CaptureFixture[str]) -> None:
    run_tool(python(r"import sys; sys.stdout.buffer.write(b'\xff\r10%\r\n')"))

    assert capfd.readouterr().out == "�\n10%\n"


@pytest.mark.parametrize("is_there", [False, True])
def test_a_tool_that_cannot_be_started_is_named(tmp_path: Path, *, is_there: bool) -> None:
    path = tmp_path / "trtllm-build"
    if is_there:
        path.touch()

    with pytest.raises(EngineError, match="trtllm-build cannot be started") as caught:
        run_tool([str(path)])

    assert not isinstance(caught.value, ToolError), "it has no exit code"


@pytest.fixture
def running() -> object:
    """Run a tool that has started another program, in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER, CHILD], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        _, child, grandchild = process.stdout.readline().split()
        yield process, psutil.Process(int(child)), psutil.Process(int(grandchild))
        for pid in (process.pid, int(child), int(grandchild)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_reaches_the_tool_and_what_it_started(
    running: tuple[subprocess.Popen[str], psutil.Process, psutil.Process], number: signal.Signals
) -> None:
    process, child, grandchild = running

    process.send_signal(number)

    out, _ = process.communicate(timeout=20)
    assert out.splitlines()[-1] == f"ended {9 if number == signal.SIGTERM else 130}"
    gone, alive = psutil.wait_procs([child, grandchild], timeout=10)
    assert alive == []
    assert len(gone) == 2


def test_a_tool_does_not_outlive_who_runs_it(
    running: tuple[subprocess.Popen[str], psutil.Process, psutil.Process],
) -> None:
    process, child, _ = running

    process.kill()

    _, alive = psutil.wait_procs([child], timeout=10)
    assert alive == []


@pytest.mark.parametrize("session", [False, True])
def test_a_tool_has_ended_when_it_has_whoever_still_holds_its_output(
    capfd: pytest.CaptureFixture[str], *, session: bool
) -> None:
    run_tool(python(DAEMON.replace("SESSION", str(session))))

    left = psutil.Process(int(capfd.readouterr().out.split()[1]))
    if session:
        left.kill()
    assert psutil.wait_procs([left], timeout=10)[1] == []


def test_variables_are_added_to_the_environment(capfd: pytest.CaptureFixture[str]) -> None:
    run_tool(python("import os; print(os.environ['A'], 'PATH' in os.environ)"), {"A": "b c"})

    assert capfd.readouterr().out == "b c True\n"
