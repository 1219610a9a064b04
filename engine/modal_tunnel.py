"""Tritons behind tunnels, which gateways find in a registry: `modal deploy -m engine.modal_tunnel`.

Thin: what happens is in `tunnelled` and `autoscale`.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
from pathlib import Path
from typing import Any

import modal
from modal.experimental import stop_fetching_inputs

from engine.autoscale import Scaler, follow, read_loads
from engine.deployment import GRPC_PORT, SETTINGS_OF, access_options
from engine.modal_app import deployment, image, serving
from engine.publication import beats
from engine.tunnelled import (
    MAX_AGE_SECONDS,
    SERVER_NAME,
    SPREAD_SECONDS,
    ControlPlane,
    Replica,
    TunnelledTriton,
)

SCALER_SECONDS = max(600, 2 * deployment.cool_down_seconds)
"""A scaler runs as long, then the next: one that is stuck is replaced. A cool-down begins anew."""
STEP_SECONDS = 10.0
INPUT_SECONDS = int(MAX_AGE_SECONDS) + 1800
"""Of a held input: it ends by itself before that."""

app = modal.App("speech-tunnel")
registry = modal.Dict.from_name(deployment.registry, create_if_missing=True)
leaving = modal.Dict.from_name(f"{deployment.registry}-leaving", create_if_missing=True)


def forward(port: int) -> Any:
    """Open a tunnel of the kind that is deployed; one with TLS must speak HTTP/2 for gRPC."""
    if deployment.tunnel == "raw":
        return modal.forward(port, unencrypted=True)
    return modal.forward(port, h2_enabled=True)


def address(tunnel: Any) -> tuple[str, int]:
    """Return where such a tunnel leads."""
    host, port = tunnel.tcp_socket if deployment.tunnel == "raw" else tunnel.tls_socket
    return host, port


@app.cls(**serving, min_containers=deployment.min_containers, timeout=INPUT_SECONDS)
class Tunnel:
    """A Triton behind a tunnel, in the registry. It holds an input of its own: it is at work."""

    @modal.enter()
    def start(self) -> None:
        """Start Triton, open the tunnel, say where it is, and begin to hold."""
        self.key = os.environ["MODAL_TASK_ID"]
        self.files = tempfile.TemporaryDirectory()
        access = access_options(deployment.tunnel, os.environ, Path(self.files.name))
        name = SERVER_NAME if deployment.tunnel == "raw" else ""
        replica = Replica(
            self.key,
            deployment.serve(access),
            GRPC_PORT,
            SETTINGS_OF[deployment.tunnel],
            deployment.capacity,
            name,
            MAX_AGE_SECONDS - random.uniform(0, SPREAD_SECONDS),  # noqa: S311  no secret
        )
        # All that there are hold an input, so one more, which nobody keeps, starts a container.
        succeed = lambda: self.hold.spawn("")  # noqa: E731
        plane = ControlPlane(forward, address, registry, leaving, succeed)
        self.triton = TunnelledTriton(replica, plane)
        self.triton.start(deployment.startup_seconds)
        try:
            self.hold.spawn(self.key)
        except BaseException:
            # Without an input it would be ended as idle, with streams that Modal does not see.
            self.triton.stop()
            raise

    @modal.method()
    def hold(self, key: str) -> None:
        """Last as long as the Triton should be used; then the container ends."""
        if key != self.key:
            # Of a container that has died, or one that is still free to take it. The dead one's,
            # were it given back, would have Modal start containers for it again and again.
            if beats(registry, key):
                self.hold.spawn(key)
            return
        try:
            self.triton.hold()
        finally:
            stop_fetching_inputs()

    @modal.exit()
    def stop(self) -> None:
        """Withdraw it and let requests end; Modal kills after 30 s."""
        self.triton.stop()


def keep(count: int) -> None:
    """Have Modal keep so many containers at least."""
    tritons: Any = Tunnel()
    tritons.update_autoscaler(min_containers=count)


if deployment.gateway:

    @app.function(
        image=image,
        secrets=serving["secrets"],
        schedule=modal.Period(seconds=SCALER_SECONDS),
        timeout=SCALER_SECONDS + 60,
        max_containers=1,
    )
    def scale() -> None:
        """Follow the gateway's load until the next one does."""
        scaler = Scaler(deployment.bounds, keep, leaving)
        is_over = threading.Event()
        threading.Timer(SCALER_SECONDS, is_over.set).start()
        key = os.environ.get("SPEECH_CLIENT_API_KEY", "")
        follow(
            scaler,
            lambda: read_loads(deployment.gateway, key),
            lambda: is_over.wait(STEP_SECONDS),
        )
