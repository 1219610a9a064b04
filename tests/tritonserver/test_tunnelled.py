"""A real Triton behind a tunnel, as a container on Modal runs it: found, spoken to, withdrawn."""

from __future__ import annotations

import asyncio
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from engine import certs
from engine.access import CALLERS, HEADER
from engine.deployment import SECRET, Deployment, access_options
from engine.errors import ServerDiedError
from engine.tunnelled import SERVER_NAME, Replica, TunnelledTriton
from engine.verify import Verifier
from fakes.modal_plane import FakePlane
from fakes.relay import Relay
from gateway.backend.addresses import Defaults
from gateway.backend.discovery.modal_dict import ModalDictReader
from speech_wire import LoopbackAccess

if TYPE_CHECKING:
    from pathlib import Path

START_SECONDS = 60.0
DEPLOYED = Deployment(model="hibari", python=sys.executable)
WORDS = "correct-horse-battery"


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    """Give certificates of an authority of our own."""
    folder = tmp_path / "pki"
    certs.make(folder, ["localhost", SERVER_NAME], datetime.now(timezone.utc))
    return folder


def tls_ended_by_the_tunnel(pki: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "server.pem", pki / "server-key.pem")
    context.set_alpn_protocols(["h2"])
    return context


def found(plane: FakePlane) -> Any:
    """Return the one address that a gateway reads."""
    (address,) = asyncio.run(ModalDictReader(plane.registry, Defaults(tls="system"), 45).read())
    return address


def test_a_sentence_is_spoken_through_it_until_it_is_asked_to_leave(
    tmp_path: Path, pki: Path, ports: Any
) -> None:
    access = access_options("h2", {SECRET: WORDS}, tmp_path)
    command = DEPLOYED.serve(access, ports.grpc)
    with Relay(ports.triton, tls=tls_ended_by_the_tunnel(pki)) as relay:
        plane = FakePlane("127.0.0.1", relay.port)
        replica = Replica("ta-1", command, ports.grpc, "system", DEPLOYED.capacity)
        triton = TunnelledTriton(replica, plane.plane(), beat_seconds=0.1, unseen_seconds=0.0)
        triton.start(START_SECONDS)
        address = found(plane)
        secret = {f"{HEADER}{CALLERS}": WORDS}
        ours = LoopbackAccess(str(pki / "ca.pem"), None, None, SERVER_NAME, secret)
        speaking = Verifier(address.target, ours)
        with ThreadPoolExecutor(1) as pool:
            # What is spoken when it is asked to leave is spoken to its end.
            spoken = pool.submit(speaking.verify, "hibari")
            plane.leaving.put("ta-1", value=True)
            reason = triton.hold()
            still_listed = dict(plane.registry.content)
            verdict = spoken.result()
            triton.stop()

    assert (address.target, reason, still_listed) == (relay.address, "asked", {})
    assert verdict.passed, verdict.checks
    assert plane.open_ports == []


def test_a_triton_that_dies_ends_what_is_held(tmp_path: Path, ports: Any) -> None:
    access = access_options("h2", {SECRET: WORDS}, tmp_path)
    command = DEPLOYED.serve(access, ports.grpc)
    plane = FakePlane()
    replica = Replica("ta-1", command, ports.grpc, "system", 8)
    triton = TunnelledTriton(replica, plane.plane(), beat_seconds=0.1, unseen_seconds=0.0)
    triton.start(START_SECONDS)

    for process in psutil.Process().children(recursive=True):
        if process.name() == "tritonserver" and str(ports.grpc) in " ".join(process.cmdline()):
            process.kill()

    with pytest.raises(ServerDiedError, match="exit code -9"):
        triton.hold()
    assert plane.registry.content == {}
    triton.stop()
