"""What is wrong with PEM is one sentence before anything is connected."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from engine import certs
from speech_wire.certificates import (
    CertificateError,
    Pair,
    Part,
    check_authority,
    check_name,
    check_pair,
    check_signed,
)

if TYPE_CHECKING:
    from pathlib import Path

    from speech_wire.certificates import Side

NOW = datetime.now(timezone.utc)
MADE = {
    "ours": NOW,
    "theirs": NOW,
    "old": NOW - timedelta(days=366),
    "early": NOW + timedelta(days=1),
    "ancient": NOW - timedelta(days=4000),
}
PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give folders of `engine certs`, and keys that no certificate has."""
    folder = tmp_path_factory.mktemp("pki")
    for name, when in MADE.items():
        certs.make(folder / name, ["triton.internal", "10.0.0.5"], when)
    ours = serialization.load_pem_private_key((folder / "ours/server-key.pem").read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"correct-horse")
    (folder / "locked.pem").write_bytes(ours.private_bytes(PEM, PKCS8, locked))
    other = rsa.generate_private_key(65537, 2048)
    bare = serialization.NoEncryption()
    (folder / "rsa.pem").write_bytes(other.private_bytes(PEM, PKCS8, bare))
    (folder / "half.pem").write_bytes((folder / "ours/server.pem").read_bytes()[:300])
    (folder / "half-key.pem").write_bytes((folder / "ours/server-key.pem").read_bytes()[:100])
    return folder


def part(pki: Path, name: str) -> Part:
    return Part(name, (pki / name).read_bytes())


def pair(pki: Path, side: Side, certificate: str, key: str) -> Pair:
    return Pair(side, part(pki, certificate), part(pki, key))


def of(pki: Path, folder: str, side: Side) -> Pair:
    return pair(pki, side, f"{folder}/{side}.pem", f"{folder}/{side}-key.pem")


@pytest.mark.parametrize("side", ["server", "client"])
def test_what_is_right_passes_and_says_until_when(pki: Path, side: Side) -> None:
    good = of(pki, "ours", side)

    check_authority(part(pki, "ours/ca.pem"))
    check_signed(good, part(pki, "ours/ca.pem"))
    assert check_pair(good) == NOW.replace(microsecond=0) + certs.LEAF_LIFETIME


@pytest.mark.parametrize(
    ("certificate", "key", "words"),
    [
        ("ours/server.pem", "theirs/server-key.pem", "server-key.pem is not the key of ours"),
        ("ours/server.pem", "rsa.pem", "rsa.pem is not the key of ours/server.pem"),
        ("ours/server.pem", "locked.pem", "locked.pem has a passphrase"),
        ("ours/server.pem", "ours/server.pem", "ours/server.pem is no private key in PEM"),
        ("ours/server.pem", "half-key.pem", "half-key.pem is no private key in PEM"),
        ("ours/server-key.pem", "ours/server-key.pem", "server-key.pem is no certificate in PEM"),
        ("half.pem", "ours/server-key.pem", "half.pem is no certificate in PEM"),
        ("old/server.pem", "old/server-key.pem", "old/server.pem has expired"),
        ("early/server.pem", "early/server-key.pem", f"is not valid yet; it is {NOW:%Y-}"),
        ("ours/client.pem", "ours/client-key.pem", "ours/client.pem is not for a server"),
    ],
)
def test_what_a_server_cannot_show_is_named(
    pki: Path, certificate: str, key: str, words: str
) -> None:
    with pytest.raises(CertificateError) as caught:
        check_pair(pair(pki, "server", certificate, key))

    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("folder", "file", "words"),
    [
        ("ours", "server", "ours/server.pem is not for a client"),
        ("old", "client", "old/client.pem has expired"),
        ("early", "client", "early/client.pem is not valid yet"),
    ],
)
def test_what_a_client_cannot_show_is_named(pki: Path, folder: str, file: str, words: str) -> None:
    with pytest.raises(CertificateError, match=words):
        check_pair(pair(pki, "client", f"{folder}/{file}.pem", f"{folder}/{file}-key.pem"))


@pytest.mark.parametrize("side", ["server", "client"])
def test_another_authority_is_named(pki: Path, side: Side) -> None:
    with pytest.raises(CertificateError, match=rf"{side}.pem is not signed by theirs/ca.pem"):
        check_signed(of(pki, "ours", side), part(pki, "theirs/ca.pem"))


@pytest.mark.parametrize("folder", ["ours", "theirs"])
def test_two_authorities_may_stand_in_one_file(pki: Path, folder: str) -> None:
    """As while one takes the other's place."""
    both = Part(
        "both.pem", b"".join((pki / f"{n}/ca.pem").read_bytes() for n in ("ours", "theirs"))
    )

    check_authority(both)
    check_signed(of(pki, folder, "client"), both)


def test_a_certificate_may_stand_for_itself(pki: Path) -> None:
    """GRPC takes it, too."""
    alone = part(pki, "ours/server.pem")

    check_authority(alone)
    check_signed(of(pki, "ours", "server"), alone)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ancient/ca.pem", f"ancient/ca.pem expired on {NOW - timedelta(days=350):%Y-%m-%d}"),
        ("ours/ca-key.pem", "ours/ca-key.pem is no certificate in PEM"),
        ("half.pem", "half.pem is no certificate in PEM"),
    ],
)
def test_what_is_no_authority_is_named(pki: Path, name: str, words: str) -> None:
    with pytest.raises(CertificateError) as caught:
        check_authority(part(pki, name))

    assert str(caught.value) == words


@pytest.mark.parametrize("name", ["triton.internal", "10.0.0.5"])
def test_a_name_of_the_certificate_is_good(pki: Path, name: str) -> None:
    check_name(of(pki, "ours", "server"), name)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", ".ü"])
def test_another_name_is_told_with_those_that_there_are(pki: Path, name: str) -> None:
    with pytest.raises(CertificateError) as caught:
        check_name(of(pki, "ours", "server"), name)

    assert str(caught.value) == f"ours/server.pem is for triton.internal, 10.0.0.5, not {name!r}"


def test_nothing_of_a_key_is_shown(pki: Path) -> None:
    secret = (pki / "ours/server-key.pem").read_text("utf-8").splitlines()[1]

    assert secret not in repr(of(pki, "ours", "server"))
