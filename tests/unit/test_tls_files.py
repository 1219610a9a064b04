"""The TLS files of `engine serve`: wrong ones are named at once, and what becomes of them told."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from engine import certs
from engine.access import Tls
from engine.errors import EngineError
from engine.tls_files import TlsFiles, check_files

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime.now(timezone.utc)


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    certs.make(tmp_path / "ours", ["triton.internal"], NOW)
    certs.make(tmp_path / "theirs", ["triton.internal"], NOW)
    return tmp_path


def mutual(pki: Path, **changed: Any) -> Tls:
    ours = pki / "ours"
    tls = Tls(
        certificate=ours / "server.pem",
        key=ours / "server-key.pem",
        root=ours / "ca.pem",
        client_root=ours / "ca.pem",
        own_certificate=ours / "client.pem",
        own_key=ours / "client-key.pem",
        name="triton.internal",
    )
    return replace(tls, **changed)


def test_what_engine_certs_makes_is_good_until_it_expires(pki: Path) -> None:
    expires = NOW.replace(microsecond=0) + certs.LEAF_LIFETIME

    assert check_files(mutual(pki)) == {
        pki / "ours" / "server.pem": expires,
        pki / "ours" / "client.pem": expires,
    }


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"key": "theirs/server-key.pem"}, "--tls-key PKI/theirs/server-key.pem is not the key of"),
        ({"root": "theirs/ca.pem"}, "server.pem is not signed by --tls-root PKI/theirs/ca.pem"),
        ({"client_root": "theirs/ca.pem"}, "client.pem is not signed by --tls-client-root PKI/th"),
        ({"own_key": "ours/ca-key.pem"}, "--tls-own-key PKI/ours/ca-key.pem is not the key of"),
        ({"root": "ours/ca-key.pem"}, "--tls-root PKI/ours/ca-key.pem is no certificate in PEM"),
        ({"key": "absent"}, "--tls-key PKI/absent cannot be read: No such file or directory"),
        ({"certificate": ""}, "--tls-certificate PKI cannot be read: Is a directory"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_file_is_named_with_its_option(
    pki: Path, changed: dict[str, str], words: str
) -> None:
    with pytest.raises(EngineError) as caught:
        check_files(mutual(pki, **{name: pki / file for name, file in changed.items()}))

    assert words.replace("PKI", str(pki)) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_that_the_certificate_does_not_have_is_told_with_the_option(pki: Path) -> None:
    with pytest.raises(EngineError, match=r"triton\.internal, not 'localhost'; --tls-name"):
        check_files(mutual(pki, name="localhost"))


def test_a_servers_certificate_that_models_cannot_show_is_told_with_the_option(pki: Path) -> None:
    words = "is not for a client .* unless there is --tls-own-certificate"

    with pytest.raises(EngineError, match=words):
        check_files(mutual(pki, own_certificate=None, own_key=None))
    check_files(mutual(pki, own_certificate=None, own_key=None, client_root=None))


def test_a_certificate_that_signed_itself_needs_no_root(pki: Path) -> None:
    check_files(mutual(pki, root=None))


def test_files_that_are_others_now_are_told_once(
    pki: Path, caplog: pytest.LogCaptureFixture
) -> None:
    time = [NOW]
    files = TlsFiles(mutual(pki), lambda: time[0])
    files.load()

    def told_after(minutes: int) -> list[str]:
        caplog.clear()
        time[0] += timedelta(minutes=minutes)
        files.look()
        return [record.getMessage() for record in caplog.records]

    assert told_after(0) == []
    certs.rotate(pki / "ours", None, NOW)
    assert told_after(0) == []
    (changed,) = told_after(1)
    assert told_after(1) == []
    (pki / "ours" / "server.pem").unlink()
    (gone,) = told_after(1)
    certs.rotate(pki / "ours", ["triton.internal"], NOW)
    files.load()
    assert told_after(1) == []
    names = [str(pki / "ours" / name) for name in ("server", "server-key", "client", "client-key")]
    assert f"engine.tls_files_changed files={'.pem,'.join(names)}.pem detail=" in changed
    assert "has to be started anew" in changed
    assert "server.pem" in gone


def test_a_certificate_that_expires_soon_is_told_once_a_day(
    pki: Path, caplog: pytest.LogCaptureFixture
) -> None:
    time = [NOW]
    files = TlsFiles(mutual(pki), lambda: time[0])
    files.load()
    days = [0.0, 334.0, 335.5, 335.9, 336.6, 366.0]

    told = []
    for day in days:
        caplog.clear()
        time[0] = NOW + timedelta(days=day)
        files.look()
        told.append([record.getMessage() for record in caplog.records])

    names = (pki / "ours" / "server.pem", pki / "ours" / "client.pem")
    on = (NOW + certs.LEAF_LIFETIME).date()
    words = [f"engine.certificate_expires file={name} on={on}" for name in names]
    assert told == [[], [], words, [], words, words]
