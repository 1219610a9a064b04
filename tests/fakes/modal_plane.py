"""What Modal gives a container, without Modal: Dicts, tunnels, and programs that play Triton."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from engine.tunnelled import ControlPlane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator

WAIT_SECONDS = 20.0
READY = "print('INFO engine.ready grpc=x', flush=True)"
TERM = r"signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'stopped\n'), sys.exit(0)))"


class FakeDict:
    """A modal.Dict: what engines use of it, and how gateways read it. `broken` fails all calls."""

    def __init__(self) -> None:
        self.broken = False
        self.content: dict[str, Any] = {}
        self.items = self
        self._changed = threading.Condition()

    def put(self, key: str, value: Any) -> bool:
        self._check()
        with self._changed:
            self.content[key] = value
            self._changed.notify_all()
        return True

    def keys(self) -> list[str]:
        self._check()
        return list(self.content)

    def pop(self, key: str, default: Any = None) -> Any:
        self._check()
        with self._changed:
            found = self.content.pop(key, default)
            self._changed.notify_all()
        return found

    def get(self, key: str, default: Any = None) -> Any:
        self._check()
        return self.content.get(key, default)

    async def aio(self) -> AsyncIterator[tuple[str, Any]]:
        """Give all pairs, as `registry.items.aio()` does."""
        for pair in tuple(self.content.items()):
            yield pair

    def wait(self, happened: Any) -> None:
        """Return once the content is such."""
        with self._changed:
            assert self._changed.wait_for(lambda: happened(self.content), WAIT_SECONDS)

    def _check(self) -> None:
        if self.broken:
            raise ConnectionError("no route to the registry")


class FakePlane:
    """A control plane whose tunnels lead to `address`, and are noted."""

    def __init__(self, host: str = "r1.tunnels.example", port: int = 443) -> None:
        self.registry = FakeDict()
        self.leaving = FakeDict()
        self.open_ports: list[int] = []
        self.succeed: Callable[[], object] = lambda: self.registry.put("ta-2", "{}")
        """What happens when another Triton is asked for."""
        self._where = (host, port)

    def plane(self) -> ControlPlane:
        """Return what is handed to a TunnelledTriton."""
        return ControlPlane(
            self._forward, lambda where: where, self.registry, self.leaving, self._succeed
        )

    def _succeed(self) -> None:
        self.succeed()

    @contextmanager
    def _forward(self, port: int) -> Generator[tuple[str, int], None, None]:
        self.open_ports.append(port)
        yield self._where
        self.open_ports.remove(port)


def playing_triton(then: str = "signal.pause()") -> list[str]:
    """Return a command that says it is ready and then does what is said, until TERM."""
    return [sys.executable, "-I", "-c", f"import os, signal, sys; {TERM}; {READY}; {then}"]
