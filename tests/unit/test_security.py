"""Where plaintext and secrets may go, and what is kept of certificates."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from gateway.addresses import is_private, split_address
from gateway.backend.addresses import Address
from gateway.backend.certificates import Certificates
from gateway.backend.security import Security
from gateway.errors import BackendUnavailableError, MisconfiguredError
from gateway.pem import Pem

if TYPE_CHECKING:
    from pathlib import Path

SECRET = (("triton-grpc-protocol-infer", "correct-horse"),)
PEM = "-----BEGIN {0}-----\nMIIB\n-----END {0}-----\n"


async def names(host: str) -> list[str]:
    """Resolve the names of these tests."""
    known = {
        "inside": ["10.0.0.1", "fd00::1"],
        "outside": ["8.8.8.8"],
        "both": ["10.0.0.1", "8.8.8.8"],
    }
    if host not in known:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")
    return known[host]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("10.1.2.3", True),
        ("172.16.0.1", True),
        ("192.168.1.1", True),
        ("169.254.1.1", True),
        ("100.64.0.1", True),
        ("::1", True),
        ("fd00::1", True),
        ("fe80::1%eth0", True),
        ("8.8.8.8", False),
        ("172.32.0.1", False),
        ("2606:4700::1111", False),
        ("::ffff:8.8.8.8", False),
        ("::ffff:10.0.0.1", True),
        ("triton", None),
    ],
)
def test_addresses_of_the_internet_are_known(host: str, *, expected: bool | None) -> None:
    assert is_private(host) is expected


@pytest.mark.parametrize("host", ["10.0.0.1", "inside"])
@pytest.mark.parametrize("metadata", [(), SECRET])
def test_plaintext_goes_to_private_addresses(
    host: str, metadata: tuple[tuple[str, str], ...]
) -> None:
    security = Security(metadata=metadata, resolve=names)

    asyncio.run(security.check(Address("a", host, 8001)))


@pytest.mark.parametrize("host", ["8.8.8.8", "outside", "both"])
def test_it_does_not_go_to_others(host: str) -> None:
    with pytest.raises(MisconfiguredError, match="SPEECH_TRITON_PLAINTEXT=any permits it"):
        asyncio.run(Security(resolve=names).check(Address("a", host, 8001)))


@pytest.mark.parametrize("host", ["8.8.8.8", "outside", "both"])
def test_a_setting_permits_plaintext_but_never_secrets_in_it(host: str) -> None:
    permitted = Security(allows_public_plaintext=True, resolve=names)
    asyncio.run(permitted.check(Address("a", host, 8001)))

    own = Address("a", host, 8001, metadata=SECRET)
    with pytest.raises(MisconfiguredError, match="which is secret") as refused:
        asyncio.run(permitted.check(own))
    assert "correct-horse" not in f"{refused.value}{refused.value.detail}"


@pytest.mark.parametrize("tls", ["system", "private"])
def test_with_tls_all_may_go_anywhere(tls: str) -> None:
    address = Address("a", "8.8.8.8", 443, tls, metadata=SECRET)  # type: ignore[arg-type]

    asyncio.run(Security(metadata=SECRET, resolve=names).check(address))


def test_a_name_without_address_is_an_outage_and_no_permission() -> None:
    with pytest.raises(BackendUnavailableError, match="cannot be resolved"):
        asyncio.run(Security(resolve=names).check(Address("a", "nowhere", 8001)))


def test_a_private_authority_must_be_known_before_there_is_a_channel() -> None:
    with pytest.raises(MisconfiguredError, match="SPEECH_TRITON_CA is not set"):
        Security().open_channel(Address("a", "10.0.0.1", 8001, "private"), 1.0)


def test_nothing_secret_is_shown_of_it() -> None:
    held = Certificates(Pem("ca", b"a"), Pem("cert", b"b"), Pem("key", b"correct-horse"))
    security = Security(held, SECRET)

    assert "correct-horse" not in repr(security)


def test_pem_is_read_from_text_or_file_and_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text(PEM.format("EC PRIVATE KEY"), "utf-8")

    read = Pem.read(str(file), "PRIVATE KEY")
    given = Pem.read(PEM.format("EC PRIVATE KEY").replace("\n", "\\n"), "PRIVATE KEY")

    assert (str(read), str(given)) == (str(file), "(given)")
    assert read.content.strip() == given.content.strip()
    assert "MIIB" not in repr(read) + repr(given)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PEM.format("CERTIFICATE"), "holds no PEM of a PRIVATE KEY"),
        ("nowhere.pem", "neither PEM nor a file that can be read: No such file"),
        ("-----BEGIN PRIVATE KEY-----\nMIIB", "no PEM at all"),
    ],
)
def test_what_is_no_key_is_refused_without_being_shown(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        Pem.read(text, "PRIVATE KEY")

    assert "MIIB" not in str(refused.value)


@pytest.mark.parametrize("text", ["::1:8001", "a:0", "a/b:1", "a b:1", "a:٣", "[::1]", ""])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be host:port"):
        split_address(text)
