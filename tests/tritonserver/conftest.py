"""Real processes for the tests of this folder: the engine with its tritonserver, the gateway.

The folder is not called `triton`: `tests` is on the path, and a folder of that name there
would shadow the Triton compiler which torch imports.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from engine.fixture import write_checkpoint
from tritonserver.processes import Ports, Process, free_ports, metric

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  Triton's place
GAP_SECONDS = 3.0
POLL_SECONDS = 1.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder."""
    folder = Path(__file__).parent
    for item in items:
        if folder in item.path.parents:
            item.add_marker(pytest.mark.triton)


def start_engine(ports: Ports, *options: str) -> Process:
    """Start Triton with the CPU voice and return once it has spoken."""
    where = ("--grpc-port", str(ports.grpc), "--metrics-port", str(ports.metrics))
    command = (sys.executable, "-I", "-m", "engine", "serve", "--model", "hibari")
    engine = Process(*command, *where, *options)
    engine.wait_for("engine.ready")
    return engine


def start_gateway(ports: Ports, *others: Ports, **settings: str) -> Process:
    """Start the HTTP service, in front of the other Tritons too; return once it listens."""
    tritons = ",".join(each.triton for each in (ports, *others))
    page = "" if others else f"127.0.0.1:{ports.metrics}"  # The setting is for one Triton.
    options = ("--port", str(ports.http), "--triton", tritons)
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
            "SPEECH_STATISTICS_INTERVAL_SECONDS": str(POLL_SECONDS),
            "SPEECH_TRITON_METRICS_ADDRESS": page,
            "PATH": "/usr/bin:/bin",
            **settings,
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
        return metric(self.ports.metrics if of_triton else self.ports.http, name, **labels)


def body(text: str, **fields: Any) -> dict[str, Any]:
    """Return a request's JSON."""
    return {
        "model": "hibari",
        "voice": "heart",
        "response_format": "pcm",
        "input": text,
        **fields,
    }


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a checkpoint of Spark-TTS with random weights."""
    folder = tmp_path_factory.mktemp("checkpoint") / "spark"
    write_checkpoint(folder, "tiny", seed=1)
    return folder


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
def pair() -> Generator[tuple[Stack, Process], None, None]:
    """Yield a stack whose gateway has a second engine too, and that engine."""
    ports, more = free_ports(), free_ports()
    engines = start_engine(ports), start_engine(more)
    own = Stack(ports, engines[0], start_gateway(ports, more))
    yield own, engines[1]
    own.stop()
    engines[1].stop()


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
