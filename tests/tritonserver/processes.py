"""Real processes, the ports that they are given, and their figures."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

START_SECONDS = 60


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


def metric(port: int, name: str, **labels: str) -> float:
    """Return the figure of that name on a metrics port of this machine."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return float(sample.value)
    pytest.fail(f"no metric {name} {labels}")
