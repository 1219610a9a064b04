"""Certificates that are replaced while the service runs: no restart, and no stream is lost."""

from __future__ import annotations

import shutil
import time
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine import certs
from fakes.door import server_credentials
from fakes.relay import Relay
from fakes.script import WAIT_SECONDS, Gate, Script, tone
from fakes.service import SAID, RunningService
from fakes.triton import FakeTriton

if TYPE_CHECKING:
    from collections.abc import Callable

PAIR = ("client_cert", "client_key")
NOW = datetime.now(timezone.utc)


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    return made(tmp_path / "ours")


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    return made(tmp_path / "theirs")


def made(folder: Path) -> Path:
    certs.make(folder, ["triton.internal"], NOW)
    return folder


def settings(folder: Path) -> dict[str, Any]:
    return {
        "triton_tls": "private",
        "triton_ca": str(folder / "ca.pem"),
        "triton_server_name": "triton.internal",
        "triton_client_cert": str(folder / "client.pem"),
        "triton_client_key": str(folder / "client-key.pem"),
        "probe_interval_seconds": 0.05,
    }


def mutual(folder: Path, script: Script | None = None) -> FakeTriton:
    return FakeTriton(script, credentials=server_credentials(folder, is_mutual=True))


def wait(is_so: Callable[[], object]) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < until


def rows(service: RunningService) -> list[dict[str, Any]]:
    """Return what is told of all connections, those that are leaving last."""
    told: list[dict[str, Any]] = service.client.get("/v1/replicas").json()["replicas"]
    return told


def is_renewed(service: RunningService, relay: Relay, taken: int) -> bool:
    """Return whether that many connections have been made, and all are closed but two."""
    return (relay.taken, relay.connections, len(rows(service))) == (taken, 2, 2)


def last_error(service: RunningService, address: str) -> str:
    return str(service.replicas()[address]["last_error"])


def test_a_new_pair_is_taken_up_and_what_runs_is_finished(ours: Path) -> None:
    gate = Gate()
    with (
        mutual(ours, Script([tone(), gate, tone()])) as triton,
        Relay(triton.address) as relay,
        RunningService(relay.address, **settings(ours)) as service,
    ):
        with service.client.stream("POST", "/v1/audio/speech", json=SAID) as response:
            pieces = response.iter_bytes()
            heard = len(next(pieces))
            certs.rotate(ours, None, NOW)
            wait(lambda: relay.connections == 2)
            triton.script = Script([tone()])
            assert service.say().status_code == 200
            gate.open()
            heard += sum(len(piece) for piece in pieces)
        wait(lambda: relay.connections == 1)
        states = [row["state"] for row in rows(service)]

    assert heard == 2 * 2 * 2400
    assert states == ["ready"]


def test_a_new_pair_gives_a_triton_no_more_streams_than_it_takes(ours: Path) -> None:
    """However often it is renewed: what it had goes on behind the old connections."""
    gate = Gate()
    limits = {"replica_max_streams": 1, "admission_wait_seconds": 0.05}
    with (
        mutual(ours, Script([tone(), gate, tone()])) as triton,
        Relay(triton.address) as relay,
        RunningService(relay.address, **settings(ours) | limits) as service,
        service.client.stream("POST", "/v1/audio/speech", json=SAID) as response,
    ):
        statuses = []
        for taken in (2, 3):
            certs.rotate(ours, None, NOW)
            wait(partial(is_renewed, service, relay, taken))
            statuses.append(service.say().status_code)
        told = [row["in_flight"] for row in rows(service)]
        gate.open()
        response.read()
        wait(lambda: relay.connections == 1)
        statuses.append(service.say().status_code)

    assert statuses == [429, 429, 200]
    assert told == [0, 1]  # The whole, where they are added up.


def test_another_authority_is_taken_up(ours: Path, theirs: Path) -> None:
    """As when a Triton and its gateways move from one authority to another."""
    with (
        mutual(ours) as triton,
        mutual(theirs) as moved,
        Relay(triton.address) as relay,
        RunningService(relay.address, **settings(ours)) as service,
    ):
        assert service.say().status_code == 200
        relay.move(moved.address)
        service.wait_state(relay.address, "connecting")
        shutil.copytree(theirs, ours, dirs_exist_ok=True)
        service.wait_state(relay.address, "ready")
        assert service.say().status_code == 200


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("client.pem", "-----BEGIN CERTIFICATE-----\nMII", "client.pem holds no PEM of a CERTIF"),
        ("client-key.pem", None, "ours/client-key.pem is not the key of SPEECH_TRITON_CLIENT_CERT"),
        ("ca.pem", "", "ca.pem holds no PEM of a CERTIFICATE, but no PEM at all"),
    ],
    ids=["half a file", "half a pair", "empty"],
)
def test_what_is_half_written_changes_nothing_and_is_told(
    ours: Path, theirs: Path, name: str, content: str | None, words: str
) -> None:
    with (
        mutual(ours) as triton,
        Relay(triton.address) as relay,
        RunningService(relay.address, **settings(ours)) as service,
    ):
        service.wait_state(relay.address, "ready")
        good = (ours / name).read_text("utf-8")
        other = (theirs / name).read_text("utf-8")
        (ours / name).write_text(other if content is None else content, "utf-8")
        wait(lambda: words in last_error(service, relay.address))
        state = service.replicas()[relay.address]["state"]
        assert service.say().status_code == 200
        connections = relay.taken
        (ours / name).write_text(good, "utf-8")
        certs.rotate(ours, None, NOW)
        wait(lambda: relay.taken > connections)
        wait(lambda: last_error(service, relay.address) == "")
        after = service.replicas()[relay.address]["state"]

    assert (state, after) == ("ready", "ready")
    assert connections == 1


def test_a_pair_that_triton_does_not_take_changes_nothing_and_is_told(
    ours: Path, theirs: Path
) -> None:
    with (
        mutual(ours) as triton,
        Relay(triton.address) as relay,
        RunningService(relay.address, **settings(ours)) as service,
    ):
        service.wait_state(relay.address, "ready")
        for name in ("client.pem", "client-key.pem"):
            shutil.copy(theirs / name, ours / name)
        wait(lambda: "not with the new cert" in last_error(service, relay.address))
        dials, asked = relay.taken, len(triton.door.metadata)
        wait(lambda: len(triton.door.metadata) > asked + 20)
        state = service.replicas()[relay.address]["state"]
        assert service.say().status_code == 200

    assert state == "ready"
    assert relay.taken == dials


def test_old_and_new_pairs_go_together(ours: Path) -> None:
    """So Tritons and gateways may be started anew one after the other."""
    given = settings(ours)
    old = {name: Path(given[f"triton_{name}"]).read_text("utf-8") for name in PAIR}
    certs.rotate(ours, None, NOW)

    with mutual(ours) as triton:
        for shown in (old, {name: given[f"triton_{name}"] for name in PAIR}):
            pair = {f"triton_{name}": value for name, value in shown.items()}
            with RunningService(triton, **given | pair) as service:
                assert service.say().status_code == 200
