"""One Triton with its engine, the tunnel before it that ends TLS, and all that can befall them."""

from __future__ import annotations

import signal
import ssl
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from chaos.empty import EmptyTriton
from fakes.relay import Relay
from tritonserver.processes import Process, free_ports

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "noise-and-nothing-else"  # noqa: S105  a test's
SLOW_BYTES_PER_SECOND = 40_000
"""Of the 96 000 that one stream needs."""
WRONG_MODEL = "silence"


@dataclass(frozen=True, slots=True)
class Site:
    """What all stations share: folders of repositories and of certificates."""

    repository: Path
    wrong_repository: Path
    secret_file: Path
    ours: Path
    theirs: Path

    def certificate(self, folder: Path) -> ssl.SSLContext:
        """Return what a tunnel with the certificate of this authority shows."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem", folder / "server-key.pem")
        context.set_alpn_protocols(["h2"])
        return context


class Station:
    """A Triton behind its tunnel; each fault is a method, and the one that ends it another."""

    def __init__(self, name: str, site: Site) -> None:
        self.name = name
        self.told_to_strangers = 0
        """Connections that went through to somebody whom we do not trust."""
        self._site = site
        self._ports = free_ports()
        self._engine = self._spawn(site.repository)
        self._relay = self._tunnel(site.ours)
        self._relay.__enter__()
        self._empty: EmptyTriton | None = None

    @property
    def address(self) -> str:
        """Where the gateway finds it now."""
        return self._relay.address

    def wait_ready(self) -> None:
        """Return once it has spoken a word."""
        self._engine.wait_for("engine.ready")

    def close(self) -> None:
        """End all of it."""
        self._stop_empty()
        self._engine.stop()
        self._relay.__exit__()

    def kill(self) -> None:
        """Kill the server: its engine ends too."""
        for server in self._engine.children("tritonserver"):
            server.kill()

    def drain(self) -> None:
        """Ask it to end, as a rolling update does."""
        self._engine.send(signal.SIGTERM)

    def restart(self) -> None:
        """Start anew what has ended or is about to."""
        self._start(self._site.repository)

    def forget(self) -> None:
        """Come back at once, without the model."""
        self.kill()
        self._start(self._site.wrong_repository)

    def remember(self) -> None:
        """Come back with the model."""
        self._engine.stop()
        self._start(self._site.repository)

    def lose_all(self) -> None:
        """Come back at once, with a repository that is empty."""
        self.kill()
        self._engine.wait()
        self._empty = EmptyTriton(self._ports, SECRET)

    def find_all(self) -> None:
        """Come back with what was in it."""
        self._stop_empty()
        self._start(self._site.repository)

    def freeze(self) -> None:
        """Stop all processes where they are, the one that would see it first."""
        for process in self._family():
            process.suspend()

    def thaw(self) -> None:
        """Let them go on."""
        for process in reversed(self._family()):
            process.resume()

    def cut(self) -> None:
        """Reset all connections, and refuse new ones."""
        self._relay.refuse()

    def join(self) -> None:
        """Take connections again."""
        self._relay.accept()

    def stall(self) -> None:
        """Carry nothing, with the connections left open."""
        self._relay.freeze()

    def flow(self) -> None:
        """Carry on."""
        self._relay.thaw()

    def slow(self) -> None:
        """Carry less than a stream needs."""
        self._relay.slow(SLOW_BYTES_PER_SECOND)

    def hasten(self) -> None:
        """Carry what comes."""
        self._relay.slow(None)

    def move(self) -> None:
        """Be found at another address, and no longer at the old one."""
        old, self._relay = self._relay, self._tunnel(self._site.ours)
        self._relay.__enter__()
        old.__exit__()

    def leave_to_strangers(self) -> None:
        """Have the address of the tunnel belong to somebody whom we do not trust."""
        self._relay.__exit__()
        self._relay = self._tunnel(self._site.theirs, self._relay.port)
        self._relay.__enter__()

    def return_from_strangers(self) -> None:
        """Have it back."""
        self.told_to_strangers += self._relay.taken
        self._relay.__exit__()
        self._relay = self._tunnel(self._site.ours, self._relay.port)
        self._relay.__enter__()

    def _tunnel(self, authority: Path, port: int = 0) -> Relay:
        return Relay(self._ports.triton, tls=self._site.certificate(authority), port=port)

    def _stop_empty(self) -> None:
        if self._empty is not None:
            self._empty.stop()

    def _start(self, repository: Path) -> None:
        self._engine.wait()
        self._engine = self._spawn(repository)
        self.wait_ready()

    def _spawn(self, repository: Path) -> Process:
        command = (sys.executable, "-I", "-m", "engine", "serve", "--repository", str(repository))
        where = ("--grpc-port", str(self._ports.grpc), "--metrics-port", str(self._ports.metrics))
        return Process(*command, *where, "--secret-file", str(self._site.secret_file))

    def _family(self) -> list[psutil.Process]:
        engine = psutil.Process(self._engine.pid)
        with suppress(psutil.Error):
            return [engine, *engine.children(recursive=True)]
        return []
