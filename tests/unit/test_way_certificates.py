"""Certificates that no Triton would take end `serve` and `check` before they begin."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from engine import certs
from gateway.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime.now(timezone.utc)
AGES = {"ours": 0, "theirs": 0, "old": 366, "ancient": 4000}
GOOD = {"CA": "ours/ca.pem", "CLIENT_CERT": "ours/client.pem", "CLIENT_KEY": "ours/client-key.pem"}


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pki")
    for name, days in AGES.items():
        certs.make(folder / name, ["triton.internal"], NOW - timedelta(days=days))
    return folder


@pytest.mark.parametrize("command", ["serve", "check"])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"CA": "ancient/ca.pem"}, "SPEECH_TRITON_CA PKI/ancient/ca.pem expired on 20"),
        (
            {"CLIENT_KEY": "theirs/client-key.pem"},
            "SPEECH_TRITON_CLIENT_KEY PKI/theirs/client-key.pem is not the key of SPEECH_TRITON_CL",
        ),
        (
            {"CLIENT_CERT": "old/client.pem", "CLIENT_KEY": "old/client-key.pem"},
            "SPEECH_TRITON_CLIENT_CERT PKI/old/client.pem has expired",
        ),
        (
            {"CLIENT_CERT": "ours/server.pem", "CLIENT_KEY": "ours/server-key.pem"},
            "SPEECH_TRITON_CLIENT_CERT PKI/ours/server.pem is not for a client",
        ),
    ],
    ids=["old authority", "another key", "expired", "a server's"],
)
def test_what_no_triton_would_take_is_one_sentence(
    command: str,
    given: dict[str, str],
    words: str,
    pki: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPEECH_TRITON_TLS", "private")
    for name, file in (GOOD | given).items():
        monkeypatch.setenv(f"SPEECH_TRITON_{name}", str(pki / file))

    code = main([command])

    assert code == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "SPEECH_TRITON" in line]
    assert line.startswith(f"error: {words.replace('PKI', str(pki))}")
