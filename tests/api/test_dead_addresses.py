"""Nobody dials a Triton that is gone, though the garbage collector looks seldom or never."""

from __future__ import annotations

import gc
import shutil
import socket
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from engine import certs
from fakes.door import server_credentials
from fakes.relay import Relay
from fakes.replicas import FAST, write
from fakes.script import WAIT_SECONDS, Hang, Script, tone
from fakes.service import SAID, RunningService
from fakes.triton import FakeTriton

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

REDIAL_SECONDS = 2.0
"""gRPC dials once a second where nobody answers."""
NOBODY = "127.0.0.1:1"
SETTINGS: dict[str, Any] = {**FAST, "connect_timeout_seconds": 0.2}


@pytest.fixture(autouse=True)
def _without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def wait(is_so: Callable[[], object]) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < until


def assert_not_dialled(service: RunningService, relay: Relay, file: Path) -> None:
    """Take all Tritons away; whoever connects to the relay's port then was left behind."""
    write(file)
    wait(lambda: not service.replicas())
    relay.refuse()
    with socket.create_server(("127.0.0.1", relay.port)) as listener:
        listener.settimeout(REDIAL_SECONDS)
        with pytest.raises(TimeoutError):
            listener.accept()


def test_one_that_was_never_reached_is_not_dialled_any_more(tmp_path: Path) -> None:
    file = tmp_path / "tritons.json"
    with Relay(NOBODY) as relay:
        given = write(file, relay)
        with RunningService(given, **SETTINGS) as service:
            assert service.say().status_code == 503
            wait(lambda: service.replicas()[relay.address]["last_error"])
            assert_not_dialled(service, relay, file)


def test_one_that_has_no_such_model_is_not_dialled_any_more(tmp_path: Path) -> None:
    file = tmp_path / "tritons.json"
    with FakeTriton() as triton, Relay(triton.address) as relay:
        given = write(file, relay)
        with RunningService(given, **SETTINGS, models="other") as service:
            wait(lambda: service.replicas()[relay.address]["last_error"])
            relay.move(NOBODY)
            assert_not_dialled(service, relay, file)


def test_one_that_broke_off_is_not_dialled_any_more(tmp_path: Path) -> None:
    file = tmp_path / "tritons.json"
    script = Script([tone(), Hang()])
    with FakeTriton(script) as triton, Relay(triton.address) as relay:
        given = write(file, relay)
        with RunningService(given, **SETTINGS) as service:
            with service.client.stream("POST", "/v1/audio/speech", json=SAID) as response:
                next(response.iter_bytes())
                relay.move(NOBODY)
                wait(lambda: service.replicas()[relay.address]["state"] != "ready")
            assert_not_dialled(service, relay, file)


def test_one_that_did_not_begin_is_not_dialled_any_more(tmp_path: Path) -> None:
    file = tmp_path / "tritons.json"
    with FakeTriton(Script([Hang()])) as triton, Relay(triton.address) as relay:
        given = write(file, relay)
        with RunningService(given, **SETTINGS, first_audio_timeout_seconds=0.2) as service:
            assert service.say().status_code == 504
            relay.move(NOBODY)
            assert_not_dialled(service, relay, file)


def test_one_that_does_not_take_new_certificates_is_not_dialled_any_more(tmp_path: Path) -> None:
    file, ours, theirs = (tmp_path / name for name in ("tritons.json", "ours", "theirs"))
    for folder in (ours, theirs):
        certs.make(folder, ["triton.internal"], datetime.now(timezone.utc))
    secured = {
        "triton_tls": "private",
        "triton_ca": str(ours / "ca.pem"),
        "triton_server_name": "triton.internal",
        "triton_client_cert": str(ours / "client.pem"),
        "triton_client_key": str(ours / "client-key.pem"),
    }
    mutual = server_credentials(ours, is_mutual=True)
    with FakeTriton(credentials=mutual) as triton, Relay(triton.address) as relay:
        given = write(file, relay)
        with RunningService(given, **SETTINGS, **secured) as service:
            service.wait_state(relay.address, "ready")
            for name in ("client.pem", "client-key.pem"):
                shutil.copy(theirs / name, ours / name)
            told = "not with the new cert"
            wait(lambda: told in service.replicas()[relay.address]["last_error"])
            assert_not_dialled(service, relay, file)
