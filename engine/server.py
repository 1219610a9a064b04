"""One tritonserver process: start, readiness, its own error lines, its stubs, its end."""

from __future__ import annotations

import errno
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.access import Access
from engine.control import TritonControl
from engine.errors import EngineError, ServerDiedError
from engine.stubs import Stubs
from engine.tls_files import TlsFiles
from engine.tool import DIE_WITH_PARENT
from engine.tuning import Tuning
from speech_wire import LOOPBACK_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from engine.installation import Installation
    from engine.runs import Run

POLL_SECONDS = 0.1
EXIT_GRACE_SECONDS = 2.0
"""Triton's own exit timeout comes first."""
KEPT_LINES = 200
LOOPBACK_FILE = "loopback.json"
RESTRICTED = "model-repository,shared-memory,trace,logging"

# On a machine without a GPU Triton complains about what it does not need.
HARMLESS = re.compile(
    r"CudaDriverHelper|NVML|DCGM|CUDA memory pool|Pinned memory pool|Signal \(\d+\) received"
)


@dataclass(frozen=True)
class Listen:
    """Where tritonserver listens. HTTP stays off: it has no TLS and the gateway needs gRPC.

    Metrics have no TLS and no secret either, so theirs is an address of its own.
    """

    host: str
    grpc_port: int
    metrics_port: int
    metrics_host: str = "127.0.0.1"

    def check_free(self) -> None:
        """Raise EngineError naming a port that another process holds."""
        if self.grpc_port == self.metrics_port:
            raise EngineError(f"gRPC and metrics cannot share port {self.grpc_port}")
        for name, host, port in (
            ("gRPC", self.host, self.grpc_port),
            ("metrics", self.metrics_host, self.metrics_port),
        ):
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((host, port))
                except OSError as error:
                    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                        raise EngineError(
                            f"{host} is no address of this machine: {error.strerror}; {name} "
                            "listens on one of its own, 127.0.0.1 or 0.0.0.0 for all"
                        ) from error
                    option = f"--{name.lower()}-port"
                    raise EngineError(
                        f"Triton's {name} port {host}:{port} cannot be taken: "
                        f"{error.strerror}; stop what holds it or choose another with {option}"
                    ) from error

    def grpc_address(self) -> str:
        """Return the address of gRPC for clients on this machine."""
        return _local(self.host, self.grpc_port)

    def metrics_address(self) -> str:
        """Return the address of the metrics for clients on this machine."""
        return _local(self.metrics_host, self.metrics_port)


def _local(host: str, port: int) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, slots=True)
class Conduct:
    """How a server behaves: who may call it, and how it is tuned."""

    access: Access = field(default_factory=Access)
    tuning: Tuning = field(default_factory=Tuning)


class TritonServer:
    """Starts a tritonserver over `repository` and serves `models` of it."""

    def __init__(
        self,
        installation: Installation,
        repository: Path,
        models: Sequence[str],
        listen: Listen,
        run: Run,
        conduct: Conduct | None = None,
    ) -> None:
        self.models = tuple(models)
        self._conduct = conduct or Conduct()
        self._admin_key = secrets.token_urlsafe(16)
        loopback = self._conduct.access.loopback()
        self.control = TritonControl(
            listen.grpc_address(), loopback, self._admin_key, listen.metrics_address()
        )
        self._listen = listen
        self._command = [str(installation.program), *installation.flags]
        self._command += self._flags(repository, run.region_prefix)
        # A repository may have been rendered for another address, and the secret is for this one.
        replace(loopback, address=listen.grpc_address()).write(run.folder / LOOPBACK_FILE)
        self._environment = installation.environment | {
            LOOPBACK_VARIABLE: str(run.folder / LOOPBACK_FILE)
        }
        tls = self._conduct.access.tls
        self._tls_files = None if tls is None else TlsFiles(tls)
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._lost_stub = False

    def _flags(self, repository: Path, region_prefix: str) -> list[str]:
        listen = self._listen
        return [
            f"--model-repository={repository.resolve()}",
            "--model-control-mode=explicit",
            *(f"--load-model={model}" for model in self.models),
            # Without it every model starts twice, the first time only to be asked.
            "--disable-auto-complete-config",
            "--allow-http=false",
            f"--grpc-address={listen.host}",
            f"--grpc-port={listen.grpc_port}",
            f"--metrics-address={listen.metrics_host}",
            f"--metrics-port={listen.metrics_port}",
            # Whoever may load a model may run any code: only this process knows the key.
            f"--grpc-restricted-protocol={RESTRICTED}:admin={self._admin_key}",
            f"--backend-config=python,shm-region-prefix-name={region_prefix}",
            "--pinned-memory-pool-byte-size=0",
            *self._conduct.access.flags(),
            *self._conduct.tuning.flags(),
        ]

    def start(self, timeout_seconds: float) -> None:
        """Start and return once the server is ready.

        Raises EngineError for TLS files that cannot do, and with the server's own error lines if
        it dies, if a model's process cannot start (Triton then waits for ever) or if
        `timeout_seconds` pass.
        """
        if self._tls_files is not None:
            self._tls_files.load()
        self._listen.check_free()
        self._lines.clear()
        self._lost_stub = False
        self._process = subprocess.Popen(
            [*DIE_WITH_PARENT, *self._command],
            env=self._environment,
            # Python models find what lies there, and in our checkout the folder `triton` would hide
            # the compiler of that name from torch.
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._stubs = Stubs(self._process.pid)
        self._reader = threading.Thread(target=self._read_lines, daemon=True)
        self._reader.start()
        self._wait_ready(timeout_seconds)

    def _wait_ready(self, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not self.control.is_ready():
            if ended := self._ended():
                raise EngineError(ended)
            if self._stubs.has_failed_to_start():
                raise EngineError(self._explain("a model's process could not start"))
            if time.monotonic() > deadline:
                words = f"Triton was not ready in {timeout_seconds:g} s"
                raise EngineError(self._explain(f"{words}: {self.control.last_failure}"))
            time.sleep(POLL_SECONDS)
        self.dead_models()

    def check_alive(self) -> None:
        """Raise ServerDiedError if the process has ended."""
        if ended := self._ended():
            raise ServerDiedError(ended)

    def look_after_files(self) -> None:
        """Say what the files of TLS are that the server reads no more; cheap, so call it often."""
        if self._tls_files is not None:
            self._tls_files.look()

    def _ended(self) -> str | None:
        code = self._process.poll()
        if code is None:
            return None
        self._reader.join(timeout=1)
        return self._explain(f"tritonserver ended with exit code {code}")

    def dead_models(self) -> list[str]:
        """Return the models of which a stub process has died since the last call."""
        return self._stubs.lost()

    def reload(self, model: str) -> None:
        """Bring a model back whose stub died or hangs; raises EngineError if Triton will not."""
        self._lost_stub = True
        # One that hangs would live on beside the new one.
        self._stubs.kill(model)
        self.control.reload(model)

    def stop(self, patience_seconds: float | None = None) -> None:
        """End the process: TERM, time for what is in flight, then KILL. Safe to call twice."""
        if not hasattr(self, "_stubs"):
            return
        if patience_seconds is None:
            patience_seconds = self._conduct.tuning.exit_seconds + EXIT_GRACE_SECONDS
        self._process.send_signal(signal.SIGTERM)
        self._stubs.lost()
        # Requests of a dead stub never end; waiting for them would only cost the time.
        if self._lost_stub:
            patience_seconds = min(patience_seconds, 1.0)
        try:
            self._process.wait(patience_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stubs.kill()
        self._reader.join(timeout=1)

    def _read_lines(self) -> None:
        assert self._process.stdout is not None  # noqa: S101  it is a pipe, see start
        with self._process.stdout as lines:
            for line in lines:
                self._lines.append(line.rstrip())
                if _is_error(line):
                    sys.stderr.write(f"triton: {line}")

    def _explain(self, what: str) -> str:
        lines = list(self._lines)
        errors = [line for line in lines if _is_error(line)] or lines[-10:]
        return "\n  ".join([what, *errors[-20:]])


def _is_error(line: str) -> bool:
    """Whether a line is Triton's error, or a model's own words, such as a traceback."""
    if not line.strip() or HARMLESS.search(line):
        return False
    if re.match(r"[IWEF]\d{4} ", line):
        return line.startswith(("E", "F"))
    is_table_of_triton = line.startswith(("|", "+-"))
    return not is_table_of_triton
