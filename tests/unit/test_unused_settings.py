"""Settings that would change nothing: refused where they look like safety, else warned of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from engine import certs
from gateway.__main__ import main
from gateway.backend.way import Way
from gateway.local import up
from gateway.settings import Settings, SettingsError, load_settings
from gateway.settings.unused import unused_settings

if TYPE_CHECKING:
    from pathlib import Path

PEM = "-----BEGIN {0}-----\nMIIB\n-----END {0}-----\n"
TLS = {
    "triton_ca": PEM.format("CERTIFICATE"),
    "triton_client_cert": PEM.format("CERTIFICATE"),
    "triton_client_key": PEM.format("PRIVATE KEY"),
    "triton_server_name": "triton.internal",
}


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(**given: str) -> Settings:
    return Settings(_env_file=None, **given)


@pytest.mark.parametrize("address", ["127.0.0.1:8001", "a:1,b:1", "dns://a:1"])
@pytest.mark.parametrize("name", TLS)
def test_what_is_for_tls_is_refused_without_tls(name: str, address: str) -> None:
    settings = load(triton_address=address, **{name: TLS[name]})

    with pytest.raises(SettingsError) as refused:
        Way.of(settings)

    words = str(refused.value)
    assert words.startswith(f"SPEECH_{name.upper()} = ")
    assert "has no effect: SPEECH_TRITON_TLS is off; set that to system or private, or" in words
    assert "BEGIN" not in words


def test_an_authority_is_for_private_tls() -> None:
    with pytest.raises(SettingsError, match=r"CA = \(given\) has no effect: SPEECH_TRITON_TLS is"):
        Way.of(load(triton_tls="system", triton_ca=TLS["triton_ca"]))


def test_entries_of_a_file_may_ask_for_tls_themselves(tmp_path: Path) -> None:
    certs.make(tmp_path, ["triton.internal"], datetime.now(timezone.utc))
    files = {"ca": "ca.pem", "client_cert": "client.pem", "client_key": "client-key.pem"}
    given = {f"triton_{name}": str(tmp_path / file) for name, file in files.items()}

    way = Way.of(load(triton_address="file:///tritons.toml", **(TLS | given)))

    assert way.security.certificates.ca is not None


@pytest.mark.parametrize(
    ("given", "warnings"),
    [
        ({}, []),
        ({"discovery_interval_seconds": "1"}, ["DISCOVERY_INTERVAL_SECONDS has no effect: a list"]),
        ({"discovery_interval_seconds": "1", "triton_address": "dns://a:1"}, []),
        ({"discovery_stale_seconds": "9", "triton_address": "dns://a:1"}, ["DISCOVERY_STALE_SEC"]),
        ({"discovery_stale_seconds": "9", "triton_address": "modal://a"}, []),
        (
            {"open_without_key": ""},
            ["OPEN_WITHOUT_KEY has no effect: without API keys"],
        ),
        ({"open_without_key": "", "api_keys": "correct-horse"}, []),
        ({"triton_plaintext": "any", "triton_tls": "system"}, ["TRITON_PLAINTEXT has no effect"]),
        ({"triton_plaintext": "any"}, []),
    ],
)
def test_what_does_no_harm_is_a_warning(given: dict[str, str], warnings: list[str]) -> None:
    found = unused_settings(load(**given))

    assert len(found) == len(warnings)
    assert all(
        one.startswith(f"SPEECH_{words}") for one, words in zip(found, warnings, strict=True)
    )


def test_check_shows_the_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPEECH_OPEN_WITHOUT_KEY", "")
    monkeypatch.setenv("SPEECH_TRITON_ADDRESS", "127.0.0.1:1")

    main(["check"])

    assert "warning: SPEECH_OPEN_WITHOUT_KEY has no effect: " in capsys.readouterr().err


def test_up_has_a_metrics_page_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPEECH_TRITON_METRICS_ADDRESS", "127.0.0.1:9999")
    monkeypatch.setenv("SPEECH_PORT", "0")  # So that nothing starts, whatever is said.

    assert up(load_settings()) == 1
    assert "SPEECH_TRITON_METRICS_ADDRESS = 127.0.0.1:9999 has no eff" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "stats"])
def test_addresses_that_cannot_be_told_are_said_once(command: str, tmp_path: Path) -> None:
    where = {"SPEECH_TRITON_ADDRESS": f"file://{tmp_path}/none"}

    done = run("-m", "gateway", command, **where, SPEECH_CONNECT_TIMEOUT_SECONDS="0.2")

    said = (done.stdout + done.stderr).count(f"{tmp_path}/none cannot be read: No such file")
    assert (done.returncode, said) == (1, 1)
    assert "discovery" not in done.stderr.replace("SPEECH_DISCOVERY", "")


def test_on_modal_what_has_no_effect_is_warned_of_and_lines_are_as_was_said() -> None:
    """Modal's secrets hold the settings, and nobody sees the start."""
    variables = {"SPEECH_PROT": "1", "SPEECH_PORT": "1", "SPEECH_OPEN_WITHOUT_KEY": ""}
    code = (
        "import logging; from gateway.modal_app import service; "
        "from gateway.settings import load_settings; service(load_settings()); "
        "logging.getLogger('speech').debug('seen')"
    )

    done = run("-c", code, **variables, SPEECH_LOG_LEVEL="debug", SPEECH_LOG_FORMAT="json")

    assert done.returncode == 0, done.stderr
    *warnings, seen = map(json.loads, done.stderr.splitlines())
    assert [(one["event"], one["detail"].partition(" ")[0]) for one in warnings] == [
        ("gateway.setting_ignored", "SPEECH_PROT"),
        ("gateway.setting_ignored", "SPEECH_OPEN_WITHOUT_KEY"),
        ("gateway.setting_ignored", "SPEECH_PORT"),
    ]
    assert seen["event"] == "seen"


def test_on_modal_a_request_ends_before_modal_ends_it() -> None:
    code = (
        "from gateway.modal_app import service; "
        "from gateway.settings import load_settings; service(load_settings())"
    )

    done = run("-c", code, SPEECH_REQUEST_TIMEOUT_SECONDS="1200")

    assert "SPEECH_REQUEST_TIMEOUT_SECONDS = 1200, and on Modal it must be below" in done.stderr


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the current folder."""
    return subprocess.run(
        [sys.executable, "-I", *arguments],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
