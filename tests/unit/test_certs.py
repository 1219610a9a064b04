"""`engine certs`: an authority, its pairs, who may read them, and how they are replaced."""

from __future__ import annotations

import re
import shlex
import stat
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from engine import certs
from engine.__main__ import main
from engine.errors import EngineError

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 30, 12, tzinfo=timezone.utc)
LIMIT_BLOCKS = 4
"""Of 512 bytes, the largest file that a shell lets a program write."""
NAMES = ("triton.internal", "10.0.0.5", "::1")


def read(folder: Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / f"{name}.pem").read_bytes())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    certs.make(tmp_path / "pki", NAMES, NOW)
    return tmp_path / "pki"


@pytest.mark.parametrize(
    ("name", "lifetime"),
    [("ca", certs.CA_LIFETIME), ("server", certs.LEAF_LIFETIME), ("client", certs.LEAF_LIFETIME)],
)
def test_each_is_good_from_now_for_its_lifetime(
    folder: Path, name: str, lifetime: timedelta
) -> None:
    certificate = read(folder, name)

    assert certificate.not_valid_before_utc == NOW - certs.CLOCK_SKEW
    assert certificate.not_valid_after_utc == NOW + lifetime
    certificate.verify_directly_issued_by(read(folder, "ca"))


def test_the_server_has_the_names_and_each_pair_its_purpose(folder: Path) -> None:
    server, client = read(folder, "server"), read(folder, "client")

    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["triton.internal"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.5", "::1"]
    purposes = [
        list(one.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        for one in (server, client)
    ]
    assert purposes == [[ExtendedKeyUsageOID.SERVER_AUTH], [ExtendedKeyUsageOID.CLIENT_AUTH]]


def test_only_the_authority_may_sign(folder: Path) -> None:
    may_sign = {
        name: read(folder, name).extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        for name in ("ca", "server", "client")
    }

    assert may_sign == {"ca": True, "server": False, "client": False}


def test_keys_are_readable_for_their_owner_alone(folder: Path) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}

    assert {name for name, mode in modes.items() if mode == 0o600} == {
        "ca-key.pem",
        "server-key.pem",
        "client-key.pem",
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(modes) == 6


def test_an_authority_that_is_there_is_not_overwritten(folder: Path) -> None:
    before = (folder / "ca-key.pem").read_bytes()

    with pytest.raises(EngineError, match="--rotate makes new pairs"):
        certs.make(folder, NAMES, NOW)

    assert (folder / "ca-key.pem").read_bytes() == before


def test_rotating_replaces_the_pairs_and_keeps_the_authority(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    later = NOW + timedelta(days=300)

    certs.rotate(folder, NAMES, later)

    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    same = {name for name, content in after.items() if before[name] == content}
    assert same == {"ca.pem", "ca-key.pem"}
    assert read(folder, "server").not_valid_after_utc == later + certs.LEAF_LIFETIME


def test_no_pair_outlives_its_authority(folder: Path) -> None:
    certs.rotate(folder, NAMES, NOW + certs.CA_LIFETIME - timedelta(days=10))

    assert read(folder, "server").not_valid_after_utc == NOW + certs.CA_LIFETIME


def test_an_authority_that_has_expired_signs_nothing(folder: Path) -> None:
    with pytest.raises(EngineError, match="has expired"):
        certs.rotate(folder, NAMES, NOW + certs.CA_LIFETIME)


def test_the_command_makes_them_and_says_which_goes_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = [
        main(["certs", str(tmp_path / "pki"), "--name", "a.example"]),
        main(["certs", str(tmp_path / "pki")]),
        main(["certs", str(tmp_path / "pki"), "--rotate"]),
        main(["certs", str(tmp_path / "none"), "--rotate"]),
        main(["certs", str(tmp_path / "odd"), "--name", "ü.example"]),
    ]

    printed = capsys.readouterr()
    assert codes == [0, 1, 0, 1, 1]
    assert "for the gateway client.pem, client-key.pem, ca.pem" in printed.out
    assert "none/ca.pem: No such file or directory" in printed.err
    assert "'ü.example' is no host name" in printed.err


@pytest.mark.parametrize("name", ["", "a b", "a!", "https://a", "a:8001", "999.1.1.1", "-a", "*"])
def test_what_is_no_host_is_refused_before_anything_is_written(
    name: str, tmp_path: Path, folder: Path
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    for make in (certs.make, certs.rotate):
        with pytest.raises(EngineError, match="is no host name and no IP address; give one"):
            make(tmp_path if make is certs.make else folder, ["localhost", name], NOW)

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["pki"]


@pytest.mark.parametrize("name", ["*.a.example", "a_b", "tritons.default.svc", "x" * 63])
def test_names_that_clusters_have_are_hosts(name: str, tmp_path: Path) -> None:
    certs.make(tmp_path / "pki", [name], NOW)

    kind = x509.SubjectAlternativeName
    names = read(tmp_path / "pki", "server").extensions.get_extension_for_class(kind).value
    assert names.get_values_for_type(x509.DNSName) == [name]


def test_the_next_pair_is_for_the_names_of_the_last(folder: Path) -> None:
    old = read(folder, "server")

    certs.rotate(folder, None, NOW)

    kind = x509.SubjectAlternativeName
    names = [
        each.extensions.get_extension_for_class(kind) for each in (old, read(folder, "server"))
    ]
    assert names[0] == names[1]
    assert old.serial_number != read(folder, "server").serial_number


@pytest.mark.parametrize("lost", ["ca.pem", "ca-key.pem"])
def test_half_an_authority_is_left_alone(
    folder: Path, lost: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / lost).unlink()
    before = {path: path.read_bytes() for path in folder.iterdir()}

    assert main(["certs", str(folder)]) == 1
    assert "has an authority already" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_key_of_another_authority_signs_nothing(folder: Path, tmp_path: Path) -> None:
    certs.make(tmp_path / "other", NAMES, NOW)
    (folder / "ca-key.pem").write_bytes((tmp_path / "other" / "ca-key.pem").read_bytes())

    with pytest.raises(EngineError, match=r"ca-key.pem is not the key of ca.pem"):
        certs.rotate(folder, None, NOW)


def test_a_disk_that_is_too_small_is_left_as_it_was(tmp_path: Path) -> None:
    """The certificate with many names is the one that does not fit."""
    names = [f"--name=a{number}.example" for number in range(200)]
    # Without -B, Python would write files of its own under the limit, and cut them off.
    command = [sys.executable, "-I", "-B", "-m", "engine", "certs", str(tmp_path / "pki"), *names]

    done = subprocess.run(
        ["/bin/sh", "-c", f"ulimit -f {LIMIT_BLOCKS}; exec {shlex.join(command)}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (1, "error: File too large\n")
    assert list((tmp_path / "pki").iterdir()) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "server.pem is not there, so that the names that it had are not known; give them w"),
        ("no certificate", "server.pem does not tell its names; give them with --name"),
    ],
)
def test_names_that_are_not_known_are_asked_for(
    folder: Path, content: str | None, words: str
) -> None:
    (folder / "server.pem").unlink()
    if content is not None:
        (folder / "server.pem").write_text(content, "utf-8")

    with pytest.raises(EngineError, match=re.escape(words)):
        certs.rotate(folder, None, NOW)
    certs.rotate(folder, NAMES, NOW)
