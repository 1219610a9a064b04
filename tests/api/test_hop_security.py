"""The way to Triton: who is there is known before anything secret is said."""

from __future__ import annotations

import shutil
import ssl
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from engine import certs
from fakes.door import server_credentials
from fakes.relay import Relay
from fakes.service import RunningService, message_of
from fakes.triton import FakeTriton

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "correct-horse-battery"  # noqa: S105
RESTRICTED = f"triton-grpc-protocol-infer={SECRET}"
FAST = {"probe_interval_seconds": 0.05}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("theirs"))


def made(folder: Path) -> Path:
    certs.make(folder, ["triton.internal"], datetime.now(timezone.utc))
    return folder


def private(folder: Path, **settings: Any) -> dict[str, Any]:
    """Return the settings that trust the authority of this folder."""
    return {
        "triton_tls": "private",
        "triton_ca": str(folder / "ca.pem"),
        "triton_server_name": "triton.internal",
        **settings,
    }


def pair(folder: Path) -> dict[str, str]:
    return {
        "triton_client_cert": str(folder / "client.pem"),
        "triton_client_key": str(folder / "client-key.pem"),
    }


def test_a_server_of_our_own_authority_is_spoken_to(ours: Path) -> None:
    with (
        FakeTriton(credentials=server_credentials(ours)) as triton,
        RunningService(triton, **private(ours)) as service,
    ):
        answer = service.say()
        tls = service.replicas()[triton.address]["tls"]

    assert answer.status_code == 200
    assert tls == "private"


def test_certificates_may_be_given_as_text(ours: Path) -> None:
    given = private(ours, triton_ca=(ours / "ca.pem").read_text().replace("\n", "\\n"))

    with (
        FakeTriton(credentials=server_credentials(ours)) as triton,
        RunningService(triton, **given) as service,
    ):
        assert service.say().status_code == 200


@pytest.mark.parametrize("name", ["", "triton.example"])
def test_a_certificate_of_another_name_is_refused(ours: Path, name: str) -> None:
    with (
        FakeTriton(credentials=server_credentials(ours)) as triton,
        RunningService(triton, **private(ours, triton_server_name=name)) as service,
    ):
        refused = service.say()

    assert "is for another name than" in message_of(refused, 503, "backend_unavailable")


def test_with_mutual_tls_the_gateway_proves_who_it_is_too(ours: Path) -> None:
    with (
        FakeTriton(credentials=server_credentials(ours, is_mutual=True)) as triton,
        RunningService(triton, **private(ours), **pair(ours)) as service,
    ):
        assert service.say().status_code == 200


@pytest.mark.parametrize("shows", [False, True], ids=["nothing", "another authority's"])
def test_a_client_that_is_not_known_is_refused_and_told_so(
    ours: Path, theirs: Path, *, shows: bool
) -> None:
    shown = pair(theirs) if shows else {}

    with (
        FakeTriton(credentials=server_credentials(ours, is_mutual=True)) as triton,
        RunningService(triton, **private(ours), **shown) as service,
    ):
        refused = service.say()
        told = service.replicas()[triton.address]["last_error"]

    message = message_of(refused, 503, "backend_unavailable")
    assert message == told
    assert "SPEECH_TRITON_CLIENT_CERT" in message


def test_a_triton_that_wants_tls_is_said_to(ours: Path) -> None:
    with (
        FakeTriton(credentials=server_credentials(ours)) as triton,
        RunningService(triton) as service,
    ):
        refused = service.say()

    assert "may want TLS (SPEECH_TRITON_TLS)" in message_of(refused, 503, "backend_unavailable")


def test_what_the_machine_trusts_is_trusted(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"triton_tls": "system", "triton_server_name": "triton.internal"}

    with FakeTriton(credentials=server_credentials(ours)) as triton:
        with RunningService(triton, **settings) as before:
            assert before.say().status_code == 503
        monkeypatch.setenv("SSL_CERT_FILE", str(ours / "ca.pem"))
        with RunningService(triton, **settings) as after:
            assert after.say().status_code == 200


def test_what_the_machine_trusts_is_not_trusted_beside_an_authority_of_ones_own(
    ours: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(theirs / "ca.pem"))

    with (
        FakeTriton(credentials=server_credentials(theirs)) as other,
        RunningService(other, **private(ours)) as service,
    ):
        assert service.say().status_code == 503


def test_an_address_that_is_somebody_elses_now_gets_no_secret(ours: Path, theirs: Path) -> None:
    """A tunnel's address is given to others once it is free."""
    with (
        FakeTriton(credentials=server_credentials(ours, is_mutual=True)) as triton,
        FakeTriton(credentials=server_credentials(theirs)) as other,
        Relay(triton.address) as relay,
    ):
        triton.door.opens_for = ("infer", SECRET)
        settings = private(ours, triton_metadata=RESTRICTED, **pair(ours), **FAST)
        with RunningService(relay.address, **settings) as service:
            assert service.say().status_code == 200
            relay.move(other.address)
            refused = service.say()
            service.wait_state(relay.address, "connecting")
            state = service.replicas()[relay.address]
            relay.move(triton.address)
            service.wait_state(relay.address, "ready")
            assert service.say().status_code == 200

    assert refused.status_code == 503
    assert "does not prove that it is ours: an authority signed it" in state["last_error"]
    assert other.door.metadata == []
    assert other.seen.started.count == 0


def test_a_server_without_tls_at_the_address_gets_no_secret(ours: Path) -> None:
    with FakeTriton() as plain:
        settings = private(ours, triton_metadata=RESTRICTED)
        with RunningService(plain, **settings) as service:
            refused = service.say()

    assert "has no TLS" in message_of(refused, 503, "backend_unavailable")
    assert plain.door.metadata == []


def test_a_restricted_protocol_opens_for_its_key(triton: FakeTriton) -> None:
    triton.door.opens_for = ("infer", SECRET)

    with RunningService(triton, triton_metadata=RESTRICTED) as service:
        assert service.say().status_code == 200
        assert SECRET not in "".join(service.log.lines)
        assert SECRET not in service.client.get("/v1/replicas").text

    header, _, value = RESTRICTED.partition("=")
    assert {given[header] for given in triton.door.metadata} == {value}


@pytest.mark.parametrize("given", ["", "triton-grpc-protocol-infer=wrong-one"])
def test_a_wrong_key_is_the_operators_mistake_and_no_outage(triton: FakeTriton, given: str) -> None:
    triton.door.opens_for = ("infer", SECRET)

    with RunningService(triton, triton_metadata=given) as service:
        refused, ready = service.say(), service.client.get("/readyz")
        shown = service.replicas()[triton.address]

    message = message_of(refused, 500, "misconfigured")
    assert "need a key that the gateway does not send" in message
    assert "triton-grpc-protocol" not in refused.text + ready.text + str(shown)
    assert ready.status_code == 503
    assert shown["ejections"] == 0


def test_a_tunnel_that_ends_tls_with_http2_is_spoken_through(ours: Path) -> None:
    with (
        FakeTriton() as triton,
        Relay(triton.address, tls=ended(ours, "h2")) as relay,
        RunningService(relay.address, **private(ours, triton_metadata=RESTRICTED)) as service,
    ):
        assert service.say().status_code == 200


def test_a_tunnel_without_http2_is_said_not_to_be_one(ours: Path) -> None:
    with (
        FakeTriton() as triton,
        Relay(triton.address, tls=ended(ours, "http/1.1")) as relay,
        RunningService(relay.address, **private(ours)) as service,
    ):
        refused = service.say()

    assert "has TLS, but no HTTP/2" in message_of(refused, 503, "backend_unavailable")


def ended(folder: Path, protocol: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server-key.pem")
    context.set_alpn_protocols([protocol])
    return context


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "SPEECH_TRITON_PLAINTEXT=any permits it"),
        ({"triton_metadata": RESTRICTED}, "which is secret, is not sent"),
        ({"triton_metadata": RESTRICTED, "triton_plaintext": "any"}, "which is secret, is not"),
    ],
)
def test_plaintext_to_the_internet_is_refused(settings: dict[str, str], words: str) -> None:
    """The address is not even connected to: the answer comes at once."""
    with RunningService("9.9.9.9:8001", **settings) as service:
        refused = service.say()

    message = message_of(refused, 500, "misconfigured")
    assert words in message
    assert SECRET not in message


@pytest.mark.parametrize(
    ("days", "words"), [(-366, "it has expired"), (1, "it is not valid yet, by the clock")]
)
def test_a_certificate_that_is_not_valid_now_is_refused(
    days: int, words: str, ours: Path, tmp_path: Path
) -> None:
    """The gateway's own authority is good all the time."""
    for name in ("ca.pem", "ca-key.pem"):
        shutil.copy(ours / name, tmp_path / name)
    made_on = datetime.now(timezone.utc) + timedelta(days=days)
    certs.rotate(tmp_path, ["triton.internal"], made_on)

    with (
        FakeTriton(credentials=server_credentials(tmp_path)) as triton,
        RunningService(triton, **private(tmp_path)) as service,
    ):
        refused = service.say()
        told = service.replicas()[triton.address]["last_error"]

    message = message_of(refused, 503, "backend_unavailable")
    assert message == told
    assert words in message


def test_a_certificate_that_is_not_for_a_server_is_refused(ours: Path, tmp_path: Path) -> None:
    for name in ("client.pem", "client-key.pem"):
        shutil.copy(ours / name, tmp_path / name.replace("client", "server"))
    settings = private(ours, triton_server_name="speech-gateway")

    with (
        FakeTriton(credentials=server_credentials(tmp_path)) as triton,
        RunningService(triton, **settings) as service,
    ):
        refused = service.say()

    assert "it is not for a server" in message_of(refused, 503, "backend_unavailable")
