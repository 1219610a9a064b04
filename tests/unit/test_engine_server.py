from __future__ import annotations

import random
import socket
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine import certs
from engine.access import Access, Tls
from engine.errors import EngineError
from engine.installation import Installation
from engine.runs import Run
from engine.server import Conduct, Listen, TritonServer
from speech_wire import LOOPBACK_VARIABLE, LoopbackAccess

if TYPE_CHECKING:
    from collections.abc import Iterator

# A loopback address of this run's own, where nothing else takes a port between two lines.
HOST = ".".join(["127", *(str(random.randrange(1, 255)) for _ in range(3))])
FAILURE = "E0101 00:00:00.000000 1 model_repository_manager.cc:1] failed to load 'hibari'"
HARMLESS = "E0101 00:00:00.000000 1 cuda.cc:1] NVML is not to be found"
CHATTER = "I0101 00:00:00.000000 1 server.cc:1] an error is only mentioned here"


@contextmanager
def taken_port() -> Iterator[int]:
    with closing(socket.create_server((HOST, 0))) as server:
        yield server.getsockname()[1]


def free_port() -> int:
    with taken_port() as port:
        return port


def triton(
    folder: Path, script: str, listen: Listen | None = None, conduct: Conduct | None = None
) -> TritonServer:
    """Return a TritonServer whose program is a shell script."""
    program = folder.absolute() / "tritonserver"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    listen = listen or Listen(HOST, free_port(), free_port(), HOST)
    installation = Installation(program, ("--flag-of-the-installation",), {"PATH": "/usr/bin:/bin"})
    run = Run(folder.absolute(), folder.absolute())
    return TritonServer(installation, folder / "repository", ["hibari"], listen, run, conduct)


def test_the_server_does_not_run_where_the_engine_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies there could be imported by its models, and paths may be relative to there."""
    monkeypatch.chdir(tmp_path)
    server = triton(Path(), 'pwd; echo "$@"; exit 1')

    with pytest.raises(EngineError, match="ended with exit code 1") as caught:
        server.start(timeout_seconds=10)

    lines = [line.strip() for line in str(caught.value).splitlines()]
    assert lines[1] == "/"
    assert f"--model-repository={tmp_path / 'repository'}" in lines[2].split()


def test_a_taken_grpc_port_is_named_with_its_option() -> None:
    with taken_port() as port:
        listen = Listen(HOST, port, free_port())

        with pytest.raises(EngineError, match=rf"gRPC port {HOST}:{port} .*--grpc-port"):
            listen.check_free()


def test_a_taken_metrics_port_is_named_with_its_option() -> None:
    with taken_port() as port:
        listen = Listen(HOST, free_port(), port, HOST)

        with pytest.raises(EngineError, match=rf"metrics port {HOST}:{port} .*--metrics-port"):
            listen.check_free()


def test_free_ports_are_fine() -> None:
    Listen(HOST, free_port(), free_port(), HOST).check_free()


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("0.0.0.0", "127.0.0.1:8001"),  # noqa: S104  the claim is about it
        ("::", "[::1]:8001"),
        ("::1", "[::1]:8001"),
        ("10.0.0.7", "10.0.0.7:8001"),
        ("localhost", "localhost:8001"),
    ],
    ids=["all IPv4", "all IPv6", "IPv6", "IPv4", "name"],
)
def test_clients_on_this_machine_reach_it_at(host: str, address: str) -> None:
    assert Listen(host, 8001, 8002).grpc_address() == address


def test_a_server_that_dies_is_reported_with_its_exit_code_and_own_words(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server = triton(tmp_path, f'echo "{CHATTER}"; echo "{FAILURE}"; echo "{HARMLESS}"; exit 7')

    with pytest.raises(EngineError) as caught:
        server.start(timeout_seconds=30)

    assert str(caught.value) == f"tritonserver ended with exit code 7\n  {FAILURE}"
    assert capfd.readouterr().err == f"triton: {FAILURE}\n"


def test_a_server_that_dies_without_an_error_line_is_reported_with_its_last_words(
    tmp_path: Path,
) -> None:
    server = triton(tmp_path, f'echo "{CHATTER}"; exit 1')

    with pytest.raises(EngineError, match="only mentioned here"):
        server.start(timeout_seconds=30)


def test_a_server_that_is_not_ready_in_time_is_an_error_and_can_be_stopped(tmp_path: Path) -> None:
    server = triton(tmp_path, "exec sleep 5")

    with pytest.raises(EngineError, match=r"not ready in 0\.1 s: UNAVAILABLE .*refused"):
        server.start(timeout_seconds=0.1)
    server.stop()

    with pytest.raises(EngineError, match="exit code -15"):
        server.check_alive()


def test_a_taken_port_is_found_before_the_server_starts(tmp_path: Path) -> None:
    with taken_port() as port:
        server = triton(
            tmp_path, f'touch "{tmp_path}/started"', Listen(HOST, port, free_port(), HOST)
        )

        with pytest.raises(EngineError, match=str(port)):
            server.start(timeout_seconds=30)

    assert not (tmp_path / "started").exists()


def test_wrong_tls_files_are_found_before_the_server_starts(tmp_path: Path) -> None:
    """Triton itself would say that its socket is in use."""
    certs.make(tmp_path / "pki", ["triton.internal"], datetime.now(timezone.utc))
    tls = Tls(tmp_path / "pki" / "server.pem", tmp_path / "pki" / "client-key.pem")
    server = triton(tmp_path, f'touch "{tmp_path}/started"', conduct=Conduct(Access(tls)))

    with pytest.raises(EngineError, match=r"client-key\.pem is not the key of --tls-certificate"):
        server.start(timeout_seconds=30)

    assert not (tmp_path / "started").exists()


def test_the_server_gets_its_repository_models_ports_and_a_locked_admin_door(
    tmp_path: Path,
) -> None:
    listen = Listen(HOST, free_port(), free_port(), HOST)
    server = triton(tmp_path, f'printf "%s\\n" "$@" > "{tmp_path}/arguments"; exit 1', listen)

    with pytest.raises(EngineError):
        server.start(timeout_seconds=30)

    given = (tmp_path / "arguments").read_text(encoding="utf-8").splitlines()
    assert {
        "--flag-of-the-installation",
        f"--model-repository={tmp_path}/repository",
        "--load-model=hibari",
        f"--grpc-port={listen.grpc_port}",
        f"--metrics-port={listen.metrics_port}",
        f"--grpc-address={HOST}",
        f"--metrics-address={HOST}",
        "--exit-timeout-secs=8",
        "--grpc-http2-min-recv-ping-interval-without-data=10000",
    } <= set(given)
    (prefix,) = [flag for flag in given if "shm-region-prefix-name" in flag]
    assert prefix.startswith("--backend-config=python,shm-region-prefix-name=speech_triton_")
    (restricted,) = [flag for flag in given if flag.startswith("--grpc-restricted-protocol=")]
    assert restricted.startswith("--grpc-restricted-protocol=model-repository,")


def test_a_secret_is_a_flag_for_triton_and_a_private_file_for_its_models(tmp_path: Path) -> None:
    """A model cannot be told in its configuration, which any caller may ask Triton for."""
    secret = "0123456789abcdef"  # noqa: S105  a test's
    script = f'printf "%s\\n" "$@" > "{tmp_path}/arguments"; env > "{tmp_path}/environment"; exit 1'
    listen = Listen(HOST, free_port(), free_port(), HOST)
    server = triton(tmp_path, script, listen, Conduct(Access(secret=secret)))

    with pytest.raises(EngineError):
        server.start(timeout_seconds=30)

    given = (tmp_path / "arguments").read_text(encoding="utf-8").splitlines()
    opened = "inference,metadata,model-config,statistics"
    assert f"--grpc-restricted-protocol={opened}:speech={secret}" in given
    environment = (tmp_path / "environment").read_text(encoding="utf-8")
    assert secret not in environment
    (line,) = [text for text in environment.splitlines() if text.startswith(LOOPBACK_VARIABLE)]
    path = Path(line.split("=", 1)[1])
    assert path.stat().st_mode & 0o077 == 0
    access = LoopbackAccess.read(path)
    assert access.address == listen.grpc_address()
    assert access.metadata() == (("triton-grpc-protocol-speech", secret),)


def test_stop_before_start_is_harmless(tmp_path: Path) -> None:
    triton(tmp_path, "exit 1").stop()


def test_stop_twice_is_harmless(tmp_path: Path) -> None:
    server = triton(tmp_path, "exit 1")
    with pytest.raises(EngineError):
        server.start(timeout_seconds=30)

    server.stop()
    server.stop()
