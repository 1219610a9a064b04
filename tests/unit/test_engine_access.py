from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.__main__ import main
from engine.access import Access, Tls, is_private
from engine.commands.server import (
    add_access_options,
    add_tuning_options,
    read_access,
    read_tuning,
)
from engine.errors import EngineError
from engine.tuning import Tuning
from speech_wire import LoopbackAccess

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "0123456789abcdef"  # noqa: S105  a test's
TLS_NAMES = ("certificate", "key", "root", "client-root", "own-certificate", "own-key")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Give a file for each option of TLS, and one with the secret."""
    paths = {name: tmp_path / f"{name}.pem" for name in TLS_NAMES}
    for path in paths.values():
        path.touch()
    (tmp_path / "secret").write_text(f"{SECRET}\na second line\n", encoding="utf-8")
    return paths | {"secret": tmp_path / "secret"}


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_access_options(parser)
    add_tuning_options(parser)
    return parser.parse_args(arguments)


def tls_options(files: dict[str, Path], *names: str) -> list[str]:
    return [word for name in names for word in (f"--tls-{name}", str(files[name]))]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_this_machines_own_addresses_need_nothing(host: str) -> None:
    Access().check(host, is_insecure=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "triton.example"])  # noqa: S104
def test_an_address_that_others_reach_needs_to_know_them_under_tls_or_a_word(
    host: str, files: dict[str, Path]
) -> None:
    tls = Tls(files["certificate"], files["key"])
    mutual = replace(tls, client_root=files["client-root"])
    for access, fault in (
        (Access(), "whoever can call this Triton may use it"),
        (Access(tls), "TLS alone lets all of them call"),
        (Access(secret=SECRET), "without TLS the secret and the texts travel in clear"),
    ):
        with pytest.raises(EngineError) as caught:
            access.check(host, is_insecure=False)

        assert f"others can reach {host}, and {fault}: give it --tls-cert" in str(caught.value)
        access.check(host, is_insecure=True)
    Access(mutual).check(host, is_insecure=False)
    Access(tls, SECRET).check(host, is_insecure=False)


def test_serve_refuses_such_an_address_before_anything_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main(["serve", "--host", "0.0.0.0"])  # noqa: S104  the claim is about it

    assert code == 1
    assert "error: others can reach 0.0.0.0" in capsys.readouterr().err


@pytest.mark.parametrize("secret", ["sixteen or more \u00e4", "sixteen or more\ttab"])
def test_a_secret_that_no_header_carries_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(EngineError, match="characters that no header can carry") as caught:
        Access(secret=secret).check("127.0.0.1", is_insecure=False)

    assert secret not in str(caught.value)


def test_a_secret_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\xff" * 20)

    with pytest.raises(EngineError, match="secret is no text: its first line is the secret"):
        read_access(options("--secret-file", str(tmp_path / "secret")))


@pytest.mark.parametrize("secret", ["", "0123456789abcde"])
def test_a_short_secret_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(EngineError, match=rf"has {len(secret)} characters, 16 at least") as caught:
        Access(secret=secret).check("127.0.0.1", is_insecure=False)

    assert secret == "" or secret not in str(caught.value)


def test_tls_is_tritons_flags_and_the_loopbacks_root(files: dict[str, Path]) -> None:
    access = read_access(options(*tls_options(files, "certificate", "key")))

    certificate = str(files["certificate"])
    assert access.flags() == [
        "--grpc-use-ssl=true",
        f"--grpc-server-cert={certificate}",
        f"--grpc-server-key={files['key']}",
    ]
    assert access.loopback() == LoopbackAccess(certificate, name="localhost", headers={})


def test_mutual_tls_has_a_certificate_for_the_loopback_too(files: dict[str, Path]) -> None:
    pair = ("certificate", "key", "root", "client-root")
    given = read_access(options(*tls_options(files, *pair), "--tls-name", "triton.example"))
    own = read_access(options(*tls_options(files, *TLS_NAMES)))

    assert given.flags()[3:] == [
        "--grpc-use-ssl-mutual=true",
        f"--grpc-root-cert={files['client-root']}",
    ]
    path = {name: str(file) for name, file in files.items()}
    assert given.loopback() == LoopbackAccess(
        path["root"], path["certificate"], path["key"], "triton.example", {}
    )
    assert own.loopback() == LoopbackAccess(
        path["root"], path["own-certificate"], path["own-key"], "localhost", {}
    )


def test_a_secret_is_the_first_line_of_its_file(files: dict[str, Path]) -> None:
    access = read_access(options("--secret-file", str(files["secret"])))

    assert access.loopback().metadata() == (("triton-grpc-protocol-speech", SECRET),)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["certificate"], "--tls-certificate and --tls-key belong together"),
        (["certificate", "key", "own-key"], "--tls-own-certificate and --tls-own-key belong"),
        (["client-root"], "without --tls-certificate and --tls-key there is no TLS"),
    ],
)
def test_half_of_a_pair_is_named(names: list[str], words: str, files: dict[str, Path]) -> None:
    with pytest.raises(EngineError, match=words):
        read_access(options(*tls_options(files, *names)))


def test_a_name_without_tls_is_refused() -> None:
    with pytest.raises(EngineError, match="without --tls-certificate and --tls-key there is no"):
        read_access(options("--tls-name", "localhost"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "absent.pem")

    with pytest.raises(EngineError, match=r"absent\.pem is no file that can be read"):
        read_access(options("--tls-certificate", missing, "--tls-key", missing))


def test_what_the_loopback_needs_reads_back(tmp_path: Path) -> None:
    access = LoopbackAccess("root", "certificate", "key", "name", {"a": "b"})

    access.write(tmp_path / "file")

    assert LoopbackAccess.read(tmp_path / "file") == access


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        (["--keepalive", "30"], ["--grpc-keepalive-time=30000"]),
        (["--keepalive-timeout", "2.5"], ["--grpc-keepalive-timeout=2500"]),
        (["--keepalive-without-calls"], ["--grpc-keepalive-permit-without-calls=1"]),
        (["--ping-interval", "5"], ["--grpc-http2-min-recv-ping-interval-without-data=5000"]),
        (["--metrics-interval", "0.5"], ["--metrics-interval-ms=500"]),
        (["--exit-timeout", "25"], ["--exit-timeout-secs=25"]),
        (["--cache-bytes", "1048576"], ["--cache-config=local,size=1048576"]),
        (
            ["--rate-limit", "GPU:4", "--rate-limit", "CPU:2"],
            [
                "--rate-limit=execution_count",
                "--rate-limit-resource=GPU:4",
                "--rate-limit-resource=CPU:2",
            ],
        ),
        (
            ["--trace-url", "http://collector:4318/v1/traces", "--trace-rate", "10"],
            [
                "--trace-config=mode=opentelemetry",
                "--trace-config=opentelemetry,url=http://collector:4318/v1/traces",
                "--trace-config=level=TIMESTAMPS",
                "--trace-config=rate=10",
            ],
        ),
    ],
    ids=lambda value: value[0].lstrip("-"),
)
def test_an_option_is_tritons_flag(arguments: list[str], flags: list[str]) -> None:
    given = read_tuning(options(*arguments)).flags()

    assert [flag for flag in given if flag in flags] == flags


def test_what_is_not_said_is_tritons_default() -> None:
    assert Tuning().flags() == [
        "--grpc-http2-min-recv-ping-interval-without-data=10000",
        "--metrics-interval-ms=2000",
        "--exit-timeout-secs=8",
    ]


@pytest.mark.parametrize(
    ("version", "words"), [(None, "of unknown version"), ((2, 51), r"2\.51"), ((2, 55), r"2\.55")]
)
def test_an_old_triton_does_not_trace(version: tuple[int, int] | None, words: str) -> None:
    tuning = Tuning(trace_url="http://collector:4318/v1/traces")

    with pytest.raises(EngineError, match=rf"needs Triton 2\.57, this one is {words}: older ones"):
        tuning.check(version)
    tuning.check((2, 57))
    Tuning().check(version)


@pytest.mark.parametrize(
    ("option", "value", "kind"),
    [
        ("--keepalive", "0", "number of seconds from 0.001 to 2147483"),
        ("--keepalive", "inf", "number of seconds from 0.001 to 2147483"),
        ("--metrics-interval", "nan", "number of seconds from 0.001 to 2147483"),
        ("--ping-interval", "soon", "number of seconds from 0.001 to 2147483"),
        ("--keepalive", "0.0001", "number of seconds from 0.001 to 2147483"),
        ("--keepalive", "2147484", "number of seconds from 0.001 to 2147483"),
        ("--exit-timeout", "-5", "whole number from 0 to 2147483647"),
        ("--exit-timeout", "2147483648", "whole number from 0 to 2147483647"),
        ("--exit-timeout", "9" * 5000, "whole number from 0 to 2147483647"),
        ("--cache-bytes", "-5", "number of bytes from 1024 to 140737488355327"),
        ("--cache-bytes", "1023", "number of bytes from 1024 to 140737488355327"),
        ("--cache-bytes", "140737488355328", "number of bytes from 1024 to 140737488355327"),
        ("--trace-rate", "0", "whole number from 1 to 2147483647"),
        ("--trace-rate", "2147483648", "whole number from 1 to 2147483647"),
        ("--rate-limit", "GPU:2147483648", "NAME:COUNT or NAME:COUNT:DEVICE, both from 0 to 214"),
        ("--rate-limit", "GPU:1:2147483648", "NAME:COUNT or NAME:COUNT:DEVICE, both from 0 to"),
        ("--rate-limit", "GPU:\u0663", "NAME:COUNT or NAME:COUNT:DEVICE"),
        ("--rate-limit", "foo", "NAME:COUNT or NAME:COUNT:DEVICE"),
    ],
)
def test_a_value_that_cannot_be_is_named(
    option: str, value: str, kind: str, capsys: pytest.CaptureFixture[Any]
) -> None:
    with pytest.raises(SystemExit):
        options(f"{option}={value}")

    assert f"'{value}' is no {kind}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("host", "expected"),
    [("10.0.0.7", True), ("::1", True), ("8.8.8.8", False), ("::ffff:8.8.8.8", False)],
)
def test_an_address_of_the_internet_is_known_in_either_dress(host: str, expected: object) -> None:
    assert is_private(host) is expected
