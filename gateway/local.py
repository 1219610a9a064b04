"""`speech-gateway up`: a local Triton and the service, started, watched and stopped together.

Each is a process of its own, as in production; this one only composes them: it waits for
readiness, starts what dies again (a few times), and stops both in order.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from gateway.settings import Settings

# If this process is killed, nobody is left who could stop its children.
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "TERM", "--")
POLL_SECONDS = 0.2
STOP_SECONDS = 20.0
IMPATIENT_SECONDS = 10.0
MAX_RESTARTS = 3
RESTART_WINDOW_SECONDS = 60.0
EXAMPLE = {
    "model": "hibari",
    "voice": "heart",
    "input": "Hello! This is a real voice, made by a real Triton.",
    "response_format": "wav",
}


class LocalError(Exception):
    """The local service cannot run; the message says why."""


class Child:
    """A child process that is started again when it dies, up to MAX_RESTARTS a minute."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self._command = command
        self._deaths: deque[float] = deque(maxlen=MAX_RESTARTS)

    def start(self) -> None:
        """Start the process, out of the terminal's reach: this one decides when it stops."""
        try:
            self._process = subprocess.Popen(
                [*DIE_WITH_PARENT, *self._command], start_new_session=True
            )
        except FileNotFoundError as error:
            raise LocalError("setpriv is missing; it is part of util-linux") from error

    def check(self, *, may_restart: bool) -> None:
        """Start the process again if it died; raises LocalError if that makes no sense."""
        code = self._process.poll()
        if code is None:
            return
        now = time.monotonic()
        often = len(self._deaths) == MAX_RESTARTS and now - self._deaths[0] < RESTART_WINDOW_SECONDS
        if not may_restart or often:
            raise LocalError(f"{self.name} ended with exit code {code}; its reason is above")
        self._deaths.append(now)
        print(f"{self.name} ended with exit code {code}; starting it again", file=sys.stderr)
        self.start()

    def stop(self, seconds: float) -> None:
        """End the process and wait for it, at most so long before it is killed."""
        if not hasattr(self, "_process"):
            return
        self._process.terminate()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
        except KeyboardInterrupt:
            print("stopping at once", file=sys.stderr)
            self._process.kill()
        self._process.wait()


def up(settings: Settings) -> int:
    """Run until Ctrl-C or SIGTERM; return 0, or 1 with the reason on standard error.

    A second Ctrl-C cuts the streams that are still running.
    """
    try:
        _check_address(settings)
    except LocalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, _interrupt)
    triton, service = _children(settings)
    try:
        _check_ports(settings)
        triton.start()
        service.start()
        _wait_ready(settings, triton, service)
        print(_ready_line(settings), flush=True)
        while True:
            _tick(triton, service, may_restart=True)
    except KeyboardInterrupt:
        print("stopping", file=sys.stderr)
        return 0
    except LocalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        service.stop(settings.shutdown_grace_seconds + STOP_SECONDS)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        triton.stop(STOP_SECONDS)


def base_url(settings: Settings) -> str:
    """Return the service's address as clients on this machine see it."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


def _children(settings: Settings) -> tuple[Child, Child]:
    host, port = settings.triton_address.rsplit(":", 1)
    host = host.strip("[]")
    models = [option for model in settings.models for option in ("--model", model)]
    if settings.model_dir is not None:
        models += ["--model-dir", str(settings.model_dir)]
    # -I: neither the working directory nor the user's packages may stand in for ours.
    python = [sys.executable, "-I", "-m"]
    hosts = ("--host", host, "--metrics-host", host)
    engine = [*python, "engine", "serve", *hosts, "--grpc-port", port, *models]
    metrics_port = str(int(port) + 1)
    metrics = []
    if settings.statistics_interval_seconds:  # Else nobody asks there, which would be a warning.
        address = f"{settings.triton_address.rsplit(':', 1)[0]}:{metrics_port}"
        metrics = ["--triton-metrics", address]
    serve = [*python, "gateway", "serve", "--host", settings.host, "--port", str(settings.port)]
    return (
        Child("triton", [*engine, "--metrics-port", metrics_port]),
        Child(
            "gateway",
            [
                *serve,
                *("--triton", settings.triton_address, *metrics),
                *("--models", ",".join(settings.models)),
            ],
        ),
    )


def _check_address(settings: Settings) -> None:
    """Raise LocalError unless there is one plain address for the Triton that is started here."""
    if "," in settings.triton_address or "://" in settings.triton_address:
        raise LocalError(
            "up starts one Triton itself, so SPEECH_TRITON_ADDRESS must be one host:port, not "
            f"{settings.triton_address}; for others there is `speech-gateway serve`"
        )
    if settings.triton_tls != "off":
        raise LocalError("up starts a Triton without TLS, so SPEECH_TRITON_TLS must be off")
    if settings.triton_metrics_address is not None:
        raise LocalError(
            "up finds the metrics page of its Triton itself, so SPEECH_TRITON_METRICS_ADDRESS = "
            f"{settings.triton_metrics_address} has no effect; leave it out"
        )


def _check_ports(settings: Settings) -> None:
    triton_port = int(settings.triton_address.rsplit(":", 1)[1])
    ports = {"SPEECH_PORT": settings.port, "SPEECH_TRITON_ADDRESS": triton_port}
    ports["Triton's metrics, one above SPEECH_TRITON_ADDRESS"] = triton_port + 1
    for name, port in ports.items():
        if not 0 < port < 2**16:
            raise LocalError(f"{name}: port {port} is not possible here; 1 to 65535 are")
    if len(set(ports.values())) < len(ports):
        raise LocalError(f"these must differ: {ports}")
    _check_free(settings.host, settings.port, "--port and --host (SPEECH_PORT, SPEECH_HOST)")
    triton_host = settings.triton_address.rsplit(":", 1)[0].strip("[]")
    for port in (triton_port, triton_port + 1):
        _check_free(triton_host, port, "--triton HOST:PORT (SPEECH_TRITON_ADDRESS)")


def _check_free(host: str, port: int, options: str) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise LocalError(
                f"{host}:{port} cannot be taken: {error.strerror}; stop what holds it or choose "
                f"another with {options}"
            ) from error


def _wait_ready(settings: Settings, *children: Child) -> None:
    patience_until = time.monotonic() + IMPATIENT_SECONDS
    while (reason := _unready(settings)) is not None:
        if time.monotonic() > patience_until:
            print(f"still waiting: {reason}", file=sys.stderr)
            patience_until = time.monotonic() + IMPATIENT_SECONDS
        _tick(*children, may_restart=False)


def _unready(settings: Settings) -> str | None:
    try:
        answer = httpx.get(f"{base_url(settings)}/readyz", trust_env=False)
    except httpx.HTTPError as error:
        return str(error)
    return None if answer.is_success else answer.text


def _tick(*children: Child, may_restart: bool) -> None:
    for child in children:
        child.check(may_restart=may_restart)
    time.sleep(POLL_SECONDS)


def _ready_line(settings: Settings) -> str:
    url = base_url(settings)
    ready = f"ready: {url} (Triton: {settings.triton_address})"
    if EXAMPLE["model"] not in settings.models:
        return f"{ready}; voices: {url}/v1/audio/voices"
    body = json.dumps(EXAMPLE)
    key = "-H 'authorization: Bearer YOUR_KEY' " if settings.known_keys else ""
    return (
        f"{ready}; try: curl {url}/v1/audio/speech -H 'content-type: application/json' "
        f"{key}-d '{body}' -o hello.wav"
    )


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
