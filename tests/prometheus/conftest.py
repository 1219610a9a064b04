"""Triton, gateway and Prometheus, all real, and a story that they live through once."""

from __future__ import annotations

import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from prometheus.load import Load
from prometheus.server import Prometheus, until
from tritonserver.processes import Ports, Process, free_ports

if TYPE_CHECKING:
    from collections.abc import Generator

TEXTS = [f"This is sentence number {n}." for n in ("one", "two", "three", "four")]

# The parser puts a counter's usual end where Triton leaves it off.
TRITONS_REQUESTS = ("nv_inference_request_success_total", "nv_inference_request_failure_total")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder."""
    folder = Path(__file__).parent
    missing = shutil.which("prometheus") is None
    for item in items:
        if folder in item.path.parents:
            item.add_marker(pytest.mark.prometheus)
            item.add_marker(pytest.mark.skipif(missing, reason="prometheus is not installed"))


@dataclass
class Story:
    """What happened, and the Prometheus that watched."""

    prometheus: Prometheus
    load: Load
    ports: Ports
    before_death: float
    """Requests that the first Triton counted after Prometheus began to look."""
    alert: dict[str, str]
    """What the alert said while Triton was away."""


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Generator[Story, None, None]:
    """Yield what Prometheus saw of good, bad and given up requests, and of a dead Triton."""
    ports = free_ports()
    engine, gateway = start_engine(ports), start_gateway(ports)
    folder = tmp_path_factory.mktemp("prometheus")
    prometheus = Prometheus(folder, free_port(), f"127.0.0.1:{ports.http}")
    try:
        load = Load(f"{ports.url}/v1/audio/speech")
        before = counted(ports)
        settle(prometheus, load)
        load.speak_together(*TEXTS)
        settle(prometheus, load)
        assert_audio(prometheus, load.audio_seconds)
        for _ in range(3):
            load.ask_for_nothing()
            load.hang_up()
        settle(prometheus, load)
        until(
            lambda: prometheus.triton_requests() == counted(ports) - before,
            "Prometheus has what Triton counts",
        )
        before_death = counted(ports) - before
        engine.children("tritonserver")[0].kill()
        engine.wait()
        load.speak("Is anybody there?")
        alert = raised(prometheus, "SpeechErrorRatioHigh")
        engine = start_engine(ports)
        until(lambda: load.speak("Back again."), "Triton is found again")
        load.speak_together(*TEXTS)
        settle(prometheus, load)
        yield Story(prometheus, load, ports, before_death, alert)
    finally:
        prometheus.stop()
        gateway.stop()
        engine.stop()


def start_engine(ports: Ports) -> Process:
    """Start Triton with the CPU voice; it speaks a word by itself at its start alone."""
    where = ("--grpc-port", str(ports.grpc), "--metrics-port", str(ports.metrics))
    command = (sys.executable, "-I", "-m", "engine", "serve", "--model", "hibari")
    engine = Process(*command, *where, "--probe-every", "3600")
    engine.wait_for("engine.ready")
    return engine


def start_gateway(ports: Ports) -> Process:
    options = ("--port", str(ports.http), "--triton", ports.triton)
    gateway = Process(
        *(sys.executable, "-I", "-m", "gateway", "serve", *options),
        env={
            "PATH": "/usr/bin:/bin",
            "SPEECH_STATISTICS_INTERVAL_SECONDS": "0.5",
            "SPEECH_TRITON_METRICS_ADDRESS": f"127.0.0.1:{ports.metrics}",
        },
    )
    gateway.wait_for("Uvicorn running")
    return gateway


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        return int(holder.getsockname()[1])


def counted(ports: Ports) -> float:
    """Return how many requests Triton has counted on its own page, which begins empty."""
    text = httpx.get(f"http://127.0.0.1:{ports.metrics}/metrics").text
    families = text_string_to_metric_families(text)
    samples = (sample for family in families for sample in family.samples)
    return sum(s.value for s in samples if s.name in TRITONS_REQUESTS)


def settle(prometheus: Prometheus, load: Load) -> None:
    """Wait until Prometheus knows of each request of the load, and of no other."""

    def seen() -> dict[str, float]:
        samples = prometheus.get("query", query="speech_requests_total")["result"]
        return {s["metric"]["outcome"]: float(s["value"][1]) for s in samples}

    def agrees() -> bool:
        there = {outcome: n for outcome, n in seen().items() if n}
        return bool(seen()) and there == dict(load.outcomes)

    until(agrees, f"Prometheus counts {dict(load.outcomes)}")


def assert_audio(prometheus: Prometheus, seconds: float) -> None:
    assert prometheus.total("speech_audio_seconds_total") == pytest.approx(seconds, abs=1e-3)


def raised(prometheus: Prometheus, name: str) -> dict[str, str]:
    """Wait for an alert and return what it says."""
    found: list[dict[str, str]] = []

    def is_there() -> bool:
        alerts = prometheus.get("alerts")["alerts"]
        found.extend(a["annotations"] for a in alerts if a["labels"]["alertname"] == name)
        return bool(found)

    until(is_there, f"{name} is at least pending")
    return found[0]
