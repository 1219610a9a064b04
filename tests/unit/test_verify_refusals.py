"""What `engine verify` refuses: addresses that are none, wrong secrets, what has no effect."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from engine import certs
from engine.__main__ import main
from fakes.counting import CountingTriton
from fakes.door import server_credentials
from fakes.script import Script, tones
from fakes.triton import FakeTriton

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def triton() -> Iterator[CountingTriton]:
    with CountingTriton(Script(tones(30))) as fake:
        yield fake


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "http://127.0.0.1:8001", "foo", "foo:bar", "h:99999", "::1:8001", ""]
)
def test_an_address_has_a_port_and_no_scheme(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["verify", address])
    assert f"'{address}' must be HOST:PORT" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        ("", "and none was sent; --secret-file names"),
        ("correct-horse-battery", "was sent is another; --s"),
    ],
)
def test_who_lacks_the_secret_is_told_so(
    secret: str,
    words: str,
    triton: CountingTriton,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Triton says UNAVAILABLE, as if it was not there."""
    triton.door.opens_for = ("speech", "battery-staple")
    (tmp_path / "secret").write_text(f"{secret}\n", "utf-8")

    options = ["--secret-file", str(tmp_path / "secret")] if secret else []
    assert main(["verify", triton.address, *options]) == 1

    error = capsys.readouterr().err
    assert f"{triton.address} refuses whoever lacks its secret, and " in error
    assert words in error
    assert "does not answer" not in error


def test_an_empty_secret_is_none(
    triton: CountingTriton, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret").write_text("\ncorrect-horse-battery\n", "utf-8")

    assert main(["verify", triton.address, "--secret-file", str(tmp_path / "secret")]) == 1
    assert f"the first line of {tmp_path}/secret is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("a=b\na=c\n", [], "headers, line 2: a is there twice"),
        ("triton-grpc-protocol-speech=x\n", ["--secret-file", "secret"], "-speech' twice"),
    ],
)
def test_a_header_has_one_value(
    content: str,
    options: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "headers").write_text(content, "utf-8")
    (tmp_path / "secret").write_text("correct-horse-battery", "utf-8")

    assert main(["verify", "127.0.0.1:1", "--headers-file", "headers", *options]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a=b\nx-bin=c\n", "headers, line 2: x-bin is for bytes"),
        (b"a b=c\n", "headers, line 1: must be name=value"),
        (b"=value\n", "headers, line 1: must be name=value"),
        ("x=sécret\n".encode(), "headers, line 1: x has characters that no header can carry"),
        (b"x=a\0b\n", "headers, line 1: x has characters that no header can carry"),
        (b"\xff\xfe\0", "--headers-file headers is no text; it has name=value"),
    ],
)
def test_what_grpc_would_not_send_is_named_by_its_line(
    content: bytes,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "headers").write_bytes(content)

    assert main(["verify", "127.0.0.1:1", "--headers-file", "headers"]) == 1
    error = capsys.readouterr().err
    assert f"error: {words}" in error
    assert "cret" not in error


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        ("größtes-geheimnis", "the secret has characters that no header can carry"),
        ("short", "the secret has 5 characters, 16 at least"),
    ],
)
def test_a_secret_that_serve_would_refuse_is_refused_by_its_file(
    secret: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "secret"
    path.write_text(secret, "utf-8")

    assert main(["verify", "127.0.0.1:1", "--secret-file", str(path)]) == 1
    assert f"error: --secret-file {path}: {words}" in capsys.readouterr().err


def test_the_systems_authorities_and_one_of_ours_do_not_go_together(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["verify", "127.0.0.1:1", "--tls", "--tls-root", "ca.pem"]) == 1
    assert "error: --tls has no effect: --tls-root names the authority" in capsys.readouterr().err


def test_a_seed_that_a_model_does_not_take_is_refused(
    triton: CountingTriton, capsys: pytest.CaptureFixture[str]
) -> None:
    triton.script = Script(tones(30), is_speech_model=False)

    assert main(["verify", triton.address, "--model", "hibari", "--seed", "5"]) == 1
    assert "--seed 5 has no effect: model 'hibari' takes none" in capsys.readouterr().err


def test_another_authority_is_one_line(tmp_path: Path) -> None:
    """GRPC would print what its error says a second time, with its own source's place."""
    for name in ("ours", "theirs"):
        certs.make(tmp_path / name, ["127.0.0.1"], datetime.now(timezone.utc))
    root = ["--tls-root", str(tmp_path / "theirs" / "ca.pem")]

    with FakeTriton(credentials=server_credentials(tmp_path / "ours")) as triton:
        done = python("-m", "engine", "verify", triton.address, *root)

    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {triton.address} does not answer: ")
    assert done.stderr.count("\n") == 1


def test_what_is_started_prints_what_grpc_has_to_say() -> None:
    asked = "import os, engine.__main__; print(os.environ.get('GRPC_VERBOSITY'))"

    assert python("-c", asked).stdout == "None\n"


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, which has not imported gRPC yet."""
    return subprocess.run(
        [sys.executable, "-I", *arguments],
        env={name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
