"""`speech-gateway replicas`: what it shows of a running service, and `check` of several."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fakes.replicas import serve, wait_ready, write
from fakes.service import RunningService
from fakes.triton import FakeTriton
from gateway.__main__ import main
from gateway.replicas import age, table, text

if TYPE_CHECKING:
    from pathlib import Path

KEY = "correct-horse"
ONE: dict[str, Any] = {
    "name": "a",
    "address": "10.0.0.1:8001",
    "tls": "private",
    "state": "ejected",
    "state_seconds": 75.0,
    "in_flight": 3,
    "capacity": 16,
    "ejections": 2,
    "last_error": "Triton cannot be reached",
    "models": ["hibari", "spark_tts"],
}


def test_the_table_has_a_line_for_each() -> None:
    other = ONE | {"name": "longer", "state": "ready", "last_error": "", "models": []}

    lines = table([ONE, other]).splitlines()

    assert lines[0].split("  ")[0] == "NAME"
    assert lines[1].split() == [
        *("a", "ejected", "1m", "3/16", "2", "private", "10.0.0.1:8001", "hibari,spark_tts"),
        *("Triton", "cannot", "be", "reached"),
    ]
    assert lines[2].split()[-2:] == ["-", "-"]
    assert len({line.index("10.0.0.1") for line in lines[1:]}) == 1


def test_what_is_set_aside_is_marked_and_an_error_has_its_age() -> None:
    one = ONE | {"set_aside": ["hibari"], "last_error_seconds": 40.0}

    row = table([one]).splitlines()[1]

    assert "hibari (differs),spark_tts  Triton cannot be reached (40s ago)" in row


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"replicas": []}, "no Triton is known (SPEECH_TRITON_ADDRESS names none now)"),
        (
            {"replicas": [ONE], "problem": "tritons.toml cannot be read"},
            "The Tritons cannot be told (SPEECH_TRITON_ADDRESS): tritons.toml cannot be read",
        ),
    ],
)
def test_what_is_wrong_with_the_addresses_stands_under_the_table(
    body: dict[str, Any], words: str
) -> None:
    assert text(body).splitlines()[-1] == words
    assert text(body).splitlines()[:-1] == table(body["replicas"]).splitlines()


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0s"), (59, "59s"), (60, "1m"), (7200, "2h"), (200_000, "2d")]
)
def test_a_time_is_in_its_largest_unit(seconds: float, words: str) -> None:
    assert age(seconds) == words


def test_it_asks_a_running_service(triton: FakeTriton, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeTriton() as other, serve(triton, other) as service:
        wait_ready(service, triton, other)
        codes = [
            main(["replicas", "--port", str(service.port), *more]) for more in ([], ["--json"])
        ]

    *shown, as_json = capsys.readouterr().out.splitlines()
    assert codes == [0, 0]
    assert [line.split()[:2] for line in shown[1:]] == sorted(
        [one.address, "ready"] for one in (triton, other)
    )
    assert [one["state"] for one in json.loads(as_json)["replicas"]] == ["ready", "ready"]


def test_a_key_opens_it_where_metrics_are_closed(
    triton: FakeTriton, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunningService(triton, api_keys=f"alice:{KEY}", open_without_key="") as service:
        refused = main(["replicas", "--url", service.base_url])
        monkeypatch.setenv("SPEECH_CLIENT_API_KEY", KEY)
        shown = main(["replicas", "--url", service.base_url])

    assert (refused, shown) == (1, 0)
    assert "error: 401: no API key was given" in capsys.readouterr().err


def test_without_a_service_the_error_says_where_it_looked(
    triton: FakeTriton, capsys: pytest.CaptureFixture[str]
) -> None:
    triton.stop()

    assert main(["replicas", "--url", f"http://{triton.address}"]) == 1
    assert f"error: http://{triton.address}: " in capsys.readouterr().err


def test_check_tries_each(triton: FakeTriton, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeTriton() as other:
        both = f"{triton.address},{other.address}"
        good = main(["check", "--triton", both])
        triton.stop()
        half = main(["check", "--triton", both])

    printed = capsys.readouterr().out
    assert (good, half) == (0, 1)
    assert printed.count(f"Triton {triton.address}:\n") == 2
    assert printed.count("model hibari: speaks") == 3
    assert printed.count("model hibari: NOT READY: Triton cannot be reached") == 1
    assert other.seen.started.count == 2


def test_check_without_addresses_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPEECH_CONNECT_TIMEOUT_SECONDS", "0.2")
    empty = write(tmp_path / "empty.json")

    codes = [main(["check", "--triton", given]) for given in (empty, "file://nowhere.toml")]

    printed = capsys.readouterr().out
    assert codes == [1, 1]
    assert "SPEECH_TRITON_ADDRESS: NO ADDRESSES: there is none now" in printed
    assert "NO ADDRESSES: nowhere.toml cannot be read: No such file" in printed


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"SPEECH_TRITON_TLS": "private"}, "SPEECH_TRITON_CA must be given"),
        ({"SPEECH_TRITON_TLS": "system", "SPEECH_TRITON_CLIENT_CERT": "ca.pem"}, "are a pair"),
        (
            {"SPEECH_TRITON_CA": "key.pem"},
            "SPEECH_TRITON_CA = 'key.pem': holds no PEM of a CERTIFICATE, but of a PRIVATE KEY",
        ),
        ({"SPEECH_TRITON_CA": "nowhere.pem"}, "SPEECH_TRITON_CA = 'nowhere.pem': is neither PEM"),
        (
            {"SPEECH_TRITON_CA": "-----BEGIN PRIVATE KEY-----correct"},
            "SPEECH_TRITON_CA = (not shown): holds no PEM",
        ),
        (
            {"SPEECH_TRITON_CLIENT_KEY": "correct/horse" * 10},
            "SPEECH_TRITON_CLIENT_KEY = (not shown): is neither PEM",
        ),
        ({"SPEECH_TRITON_METADATA": "correct-horse"}, "SPEECH_TRITON_METADATA = (not shown): "),
        ({"SPEECH_TRITON_ADDRESS": "a:1,a:1"}, "'a:1' is there twice"),
    ],
)
def test_settings_that_do_not_go_together_end_it_and_show_no_secret(
    variables: dict[str, str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, kind in (("ca.pem", "CERTIFICATE"), ("key.pem", "PRIVATE KEY")):
        pem = f"-----BEGIN {kind}-----\n{KEY}\n-----END {kind}-----\n"
        (tmp_path / name).write_text(pem.replace("correct-horse", "correcthorse"), "utf-8")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    code = main(["serve"])

    printed = capsys.readouterr()
    assert code == 1
    assert words in printed.err
    assert "correct" not in printed.err + printed.out


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"SPEECH_TRITON_ADDRESS": "a:1,b:1"}, "must be one host:port, not a:1,b:1"),
        ({"SPEECH_TRITON_ADDRESS": "dns://a:1"}, "must be one host:port, not dns://a:1"),
        ({"SPEECH_TRITON_TLS": "system"}, "SPEECH_TRITON_TLS must be off"),
    ],
)
def test_up_starts_one_triton_in_plaintext(
    variables: dict[str, str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert main(["up"]) == 1
    assert words in capsys.readouterr().err
