"""Tritons behind one address, routed and scaled by Modal: `modal deploy -m engine.modal_server`."""

from __future__ import annotations

import math
import os
import sys
import tempfile
from pathlib import Path

import modal

from engine.autoscale import FULL_SHARE
from engine.deployment import GRPC_PORT, access_options
from engine.errors import SERVER_DIED
from engine.modal_app import deployment, serving
from engine.served import ServedTriton
from engine.tunnelled import STOP_SECONDS

GRACE_SECONDS = math.ceil(STOP_SECONDS) + 5
"""For the whole of `stop`, which waits for Triton as long as that and may have to kill it."""

app = modal.App("speech-server")


def end_container() -> None:
    """End this process: a container whose Triton is gone answers nobody, and would be kept."""
    sys.stdout.flush()
    os._exit(SERVER_DIED)


@app.server(
    **serving,
    port=GRPC_PORT,
    h2_enabled=True,
    target_concurrency=deployment.capacity * FULL_SHARE,
    max_concurrency=deployment.capacity,
    min_containers=deployment.min_containers,
    exit_grace_period=GRACE_SECONDS,
    routing_region=deployment.region,
)
class Server:
    """A Triton behind Modal's own router: one address, scaled by Modal, opened by proxy tokens."""

    @modal.enter()
    def start(self) -> None:
        """Start Triton; Modal waits for the port."""
        self.files = tempfile.TemporaryDirectory()
        access = access_options("h2", os.environ, Path(self.files.name))
        # Only Modal's router comes to this address, which has ended TLS and asked for its tokens.
        everywhere = ["--host", "0.0.0.0", "--insecure"]  # noqa: S104
        command = deployment.serve([*everywhere, *access])
        self.triton = ServedTriton(command, STOP_SECONDS, end_container)
        self.triton.start(deployment.startup_seconds)

    @modal.exit()
    def stop(self) -> None:
        """Let requests end."""
        self.triton.stop()
