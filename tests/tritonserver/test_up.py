"""`speech-gateway up`, which is what `make run` starts."""

from __future__ import annotations

import shlex
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import soundfile

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


@pytest.fixture
def up(ports: Any, process: Any, regions: Any) -> Generator[Any, None, None]:
    assert not regions(), "looked at before the start"
    running = process(*command(ports))
    yield running
    running.stop()


def command(ports: Any) -> tuple[str, ...]:
    options = ("--port", str(ports.http), "--triton", ports.triton)
    return (sys.executable, "-I", "-m", "gateway", "up", *options)


def test_ready_line_has_a_curl_line_that_works_and_ctrl_c_leaves_nothing(
    up: Any, tmp_path: Path, regions: Any
) -> None:
    """The printed command speaks; after Ctrl-C no process and no shared memory is left."""
    curl = up.wait_for("ready: http").split("; try: ")[1]
    family = psutil.Process(up.pid).children(recursive=True)

    subprocess.run(shlex.split(f"{curl} --silent --fail"), cwd=tmp_path, check=True)
    code = up.stop(signal.SIGINT)

    assert soundfile.info(tmp_path / "hello.wav").samplerate == 24_000
    assert code == 0
    assert len(family) >= 4
    assert not [child for child in family if child.is_running()]
    assert not regions()


def test_killed_tritonserver_is_replaced(up: Any, ports: Any, until: Any, ask: Any) -> None:
    """Nobody has to start anything again by hand."""
    up.wait_for("ready: http")

    up.children("tritonserver")[0].kill()
    up.wait_for("; starting it again")
    until(lambda: ask(ports).status_code == 200, 30)

    assert len(up.children("tritonserver")) == 1


def test_killed_up_takes_its_children_with_it(up: Any, until: Any) -> None:
    """Not even SIGKILL leaves a server that holds the ports."""
    up.wait_for("ready: http")
    family = psutil.Process(up.pid).children(recursive=True)

    up.stop(signal.SIGKILL)

    until(lambda: not any(child.is_running() for child in family), 30)


@pytest.mark.parametrize("taken", ["http", "grpc", "metrics"])
def test_taken_port_is_named(ports: Any, process: Any, taken: str) -> None:
    """Each of the three ports is checked before anything waits for it."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", getattr(ports, taken)))
        holder.listen()
        refused = process(*command(ports))
        code = refused.wait()

    assert code == 1
    assert any(
        f"127.0.0.1:{getattr(ports, taken)} cannot be taken" in line for line in refused.lines
    )
