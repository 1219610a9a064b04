"""Real processes for the tests of this folder: the engine with its tritonserver, the gateway.

The folder is not called `triton`: `tests` is on the path, and a folder of that name there
would shadow the Triton compiler which torch imports.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  Triton's place
START_SECONDS = 60
GAP_SECONDS = 3.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder."""
    folder = Path(__file__).parent
    for item in items:
        if folder in item.path.parents:
            item.add_marker(pytest.mark.triton)


class Process:
    """A command whose output is read line by line; `wait_for` waits for one of them."""

    def __init__(self, *command: str, env: dict[str, str] | None = None) -> None:
        self.lines: list[str] = []
        self._grown = threading.Condition()
        self._popen = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            with self._grown:
                self.lines.append(line.rstrip())
                self._grown.notify_all()
        with self._grown:
            self._grown.notify_all()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def wait_for(self, words: str, seconds: float = START_SECONDS) -> str:
        """Return the first line with these words; fails if the process ends without it."""

        def found() -> str | None:
            return next((line for line in self.lines if words in line), None)

        with self._grown:
            ended = lambda: self._popen.poll() is not None  # noqa: E731
            self._grown.wait_for(lambda: found() or ended(), seconds)
            line = found()
        assert line is not None, f"no {words!r} in:\n" + "\n".join(self.lines)
        return line

    def children(self, name: str) -> list[psutil.Process]:
        """Return the living descendants whose program has this name."""
        alive = []
        for child in psutil.Process(self.pid).children(recursive=True):
            try:
                if child.cmdline()[:1] and Path(child.cmdline()[0]).name == name:
                    alive.append(child)
            except psutil.Error:
                continue
        return alive

    def send(self, number: int) -> None:
        self._popen.send_signal(number)

    def stop(self, number: int = signal.SIGTERM, seconds: float = 30) -> int:
        """Send a signal and return the exit code."""
        if self._popen.poll() is None:
            self._popen.send_signal(number)
        return self.wait(seconds)

    def wait(self, seconds: float = 30) -> int:
        try:
            code = self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            code = self._popen.wait()
        self._reader.join(seconds)
        if self._popen.stdout is not None:
            self._popen.stdout.close()
        return code


@dataclass(frozen=True)
class Ports:
    http: int
    grpc: int
    metrics: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http}"

    @property
    def triton(self) -> str:
        return f"127.0.0.1:{self.grpc}"


def free_ports() -> Ports:
    """Return ports that are free now; Triton's metrics follow its gRPC, as `up` has it."""
    while True:
        with socket.socket() as http, socket.socket() as grpc, socket.socket() as metrics:
            http.bind(("127.0.0.1", 0))
            grpc.bind(("127.0.0.1", 0))
            port = grpc.getsockname()[1]
            try:
                metrics.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return Ports(http.getsockname()[1], port, port + 1)


def start_engine(ports: Ports, *options: str) -> Process:
    """Start Triton with the CPU voice and return once it has spoken."""
    where = ("--grpc-port", str(ports.grpc), "--metrics-port", str(ports.metrics))
    command = (sys.executable, "-I", "-m", "engine", "serve", "--model", "hibari")
    engine = Process(*command, *where, *options)
    engine.wait_for("engine.ready")
    return engine


def start_gateway(ports: Ports) -> Process:
    """Start the HTTP service and return once it listens."""
    options = ("--port", str(ports.http), "--triton", ports.triton)
    gateway = Process(
        sys.executable,
        "-I",
        "-m",
        "gateway",
        "serve",
        *options,
        env={
            "SPEECH_GAP_TIMEOUT_SECONDS": str(GAP_SECONDS),
            # So that a text that is not to be split is one call of the model, however long.
            "SPEECH_SEGMENT_CHARACTERS": "4096",
            "PATH": "/usr/bin:/bin",
        },
    )
    gateway.wait_for("Uvicorn running")
    return gateway


@dataclass
class Stack:
    """An engine and a gateway in front of it."""

    ports: Ports
    engine: Process
    gateway: Process
    gap_seconds: float = GAP_SECONDS

    def restart_engine(self, *options: str) -> None:
        """Start an engine on the same ports after the old one has ended."""
        self.engine.wait()
        self.engine = start_engine(self.ports, *options)

    def stop(self) -> None:
        self.gateway.stop()
        self.engine.stop()

    def ask(self, text: str, **fields: Any) -> httpx.Response:
        """Post a speech request and return the whole answer."""
        return httpx.post(f"{self.ports.url}/v1/audio/speech", json=body(text, **fields))

    def metric(self, name: str, *, of_triton: bool = False, **labels: str) -> float:
        """Return a figure of the gateway or of Triton."""
        port = self.ports.metrics if of_triton else self.ports.http
        text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return float(sample.value)
        pytest.fail(f"no metric {name} {labels}")


def body(text: str, **fields: Any) -> dict[str, Any]:
    """Return a request's JSON."""
    return {
        "model": "hibari",
        "voice": "heart",
        "response_format": "pcm",
        "input": text,
        **fields,
    }


@pytest.fixture
def regions() -> Callable[[], set[str]]:
    """Return a function that gives our shared memory regions that are new since the test began."""

    def now() -> set[str]:
        return {path.name for path in SHARED_MEMORY.glob("speech_triton_*")}

    before = now()
    return lambda: now() - before


@pytest.fixture(scope="session")
def stack() -> Generator[Stack, None, None]:
    """Yield a stack that tests share; none of them may break it."""
    ports = free_ports()
    shared = Stack(ports, start_engine(ports), start_gateway(ports))
    yield shared
    shared.stop()


@pytest.fixture
def own_stack(regions: Callable[[], set[str]]) -> Generator[Stack, None, None]:  # noqa: ARG001  it must look first
    """Yield a stack that the test may break."""
    ports = free_ports()
    own = Stack(ports, start_engine(ports), start_gateway(ports))
    yield own
    own.stop()


@pytest.fixture
def ports() -> Ports:
    return free_ports()


@pytest.fixture
def process() -> type[Process]:
    return Process


@pytest.fixture
def ask() -> Callable[[Ports], httpx.Response]:
    """Return a function that asks the gateway at these ports for one sentence."""
    return lambda ports: httpx.post(f"{ports.url}/v1/audio/speech", json=body("Are you back?"))


@pytest.fixture
def until() -> Callable[[Callable[[], bool], float], float]:
    """Poll what another process does; return the seconds it took.

    Other processes give no event to wait for, so this is the one place that looks again.
    """

    def wait(happened: Callable[[], bool], seconds: float) -> float:
        started = time.monotonic()
        ticks = threading.Event()
        while not happened():
            assert time.monotonic() - started < seconds, f"nothing within {seconds} s"
            ticks.wait(0.005)
        return time.monotonic() - started

    return wait
