"""A Triton without any model: the engine serves no such folder, so this is its server alone."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from engine.access import Access
from engine.installation import find_installation
from engine.runs import Run
from engine.server import Conduct, Listen, TritonServer

if TYPE_CHECKING:
    from tritonserver.processes import Ports

START_SECONDS = 60.0


class EmptyTriton:
    """A tritonserver over an empty folder, at these ports. It is ready, and has nothing to say."""

    def __init__(self, ports: Ports, secret: str) -> None:
        with ExitStack() as stack:
            run = stack.enter_context(closing(Run()))
            repository = run.folder / "repository"
            repository.mkdir()
            installation = find_installation(run.folder)
            listen = Listen("127.0.0.1", ports.grpc, ports.metrics)
            conduct = Conduct(Access(secret=secret))
            server = TritonServer(installation, repository, (), listen, run, conduct)
            stack.callback(server.stop)
            server.start(START_SECONDS)
            self._stack = stack.pop_all()

    def stop(self) -> None:
        """End it. Safe to call twice."""
        self._stack.close()
