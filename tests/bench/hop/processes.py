"""The processes of a measurement: started, pinned to cores, counted and stopped."""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

TESTS = Path(__file__).parents[2]
START_SECONDS = 120.0
CORES = sorted(os.sched_getaffinity(0))
SERVED = {CORES[0]}
"""The core of the process that is measured."""
OTHERS = set(CORES[1:]) or SERVED
"""The cores of Triton and the clients."""


def machine() -> str:
    """Return what the figures were taken on."""
    today = datetime.now(timezone.utc).date()
    models = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    name = models[0].partition(":")[2].strip() if models else platform.machine()
    return (
        f"{len(CORES)} cores, {name}, Python {platform.python_version()}, {today}, "
        f"load before {os.getloadavg()[0]:.1f}"
    )


def free_port() -> int:
    """Return a port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(
    command: Sequence[str],
    port: int,
    cores: set[int] | None = None,
    variables: Mapping[str, str] | None = None,
) -> Generator[psutil.Process, None, None]:
    """Run a command that serves on `port`, on these cores, until the body ends."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS), **(variables or {})}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment, **quiet) as process:
        try:
            os.sched_setaffinity(process.pid, cores or set(CORES))
            _wait_for(port, process)
            yield psutil.Process(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)


@contextmanager
def triton(pause_seconds: float = 0.0, chunks: int = 10) -> Generator[int, None, None]:
    """Run a Triton of 100 ms chunks; its port."""
    port = free_port()
    command = [sys.executable, "-m", "bench.hop.fast_triton", "--port", str(port)]
    command += ["--chunks", str(chunks), "--pause", str(pause_seconds)]
    with running(command, port, OTHERS):
        yield port


@contextmanager
def gateway(
    triton_port: int, cores: set[int] | None = None
) -> Generator[tuple[psutil.Process, int], None, None]:
    """Run the gateway, with room for a thousand streams; its process and port."""
    port = free_port()
    command = [sys.executable, "-I", "-m", "gateway", "serve", "--port", str(port)]
    command += ["--triton", f"127.0.0.1:{triton_port}"]
    variables = {"SPEECH_MAX_CONCURRENT_REQUESTS": "1000", "SPEECH_CACHE_DIR": ""}
    with running(command, port, cores, variables) as process:
        yield process, port


@contextmanager
def bare_stub() -> Generator[tuple[psutil.Process, int], None, None]:
    """Run a service that streams the same bytes and does nothing else; its process and port."""
    port = free_port()
    command = [sys.executable, "-m", "bench.hop.bare_stub", "--port", str(port)]
    with running(command, port, SERVED) as process:
        yield process, port


def cpu_seconds(process: psutil.Process) -> float:
    """Return what the process has used so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} does not serve; exit code {process.returncode}")
