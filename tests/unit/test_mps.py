from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.mps import multi_process_service, quit_service
from engine.runs import MPS, PREFIX, remove_stale
from fakes.mps import FakeControl

ENGINE = [sys.executable, "-I", "-m", "engine"]
PORTS = ("--grpc-port", "28973", "--metrics-port", "28974")
TRITON = """#!/bin/sh
echo "E0101 1 x.cc:1] its pipes are in $CUDA_MPS_PIPE_DIRECTORY"
exit 5
"""


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeControl:
    fake = FakeControl(tmp_path)
    monkeypatch.setenv("PATH", f"{fake.folder}:{os.environ['PATH']}")
    return fake


def test_its_clients_find_it_until_the_end(tmp_path: Path, control: FakeControl) -> None:
    folder = tmp_path / "mps"

    with multi_process_service(folder) as variables:
        assert variables == {
            "CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe",
            "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log",
        }
        assert all(Path(directory).is_dir() for directory in variables.values())
        assert control.calls == [["-d", "", *variables.values()]]

    assert control.calls[1:] == [["", "quit -t 10", *variables.values()]]


def test_it_ends_with_whoever_fails_beside_it(tmp_path: Path, control: FakeControl) -> None:
    with pytest.raises(ZeroDivisionError), multi_process_service(tmp_path / "mps"):
        raise ZeroDivisionError

    assert [call[:2] for call in control.calls] == [["-d", ""], ["", "quit -t 10"]]


def test_where_there_is_none_it_is_said_where_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with (
        pytest.raises(EngineError, match="--mps needs nvidia-cuda-mps-control, which is not on"),
        multi_process_service(tmp_path / "mps"),
    ):
        pytest.fail("it began")


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("echo 'no daemon for you' >&2; exit 3", "ended with exit code 3: no daemon for you"),
        ("exit 1", "ended with exit code 1: it said nothing"),
    ],
)
def test_one_that_does_not_start_is_an_error_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str, words: str
) -> None:
    fake = FakeControl(tmp_path, start)
    monkeypatch.setenv("PATH", f"{fake.folder}:{os.environ['PATH']}")

    with pytest.raises(EngineError, match=words), multi_process_service(tmp_path / "mps"):
        pytest.fail("it began")


def test_a_daemon_that_keeps_its_output_open_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeControl(tmp_path, "tail -f /dev/null --pid=$PPID & exit 0")
    monkeypatch.setenv("PATH", f"{fake.folder}:{os.environ['PATH']}")

    with multi_process_service(tmp_path / "mps"):
        assert len(fake.calls) == 1


def test_the_daemon_of_a_run_that_died_is_ended_with_what_it_left(
    tmp_path: Path, control: FakeControl
) -> None:
    regions, temporary = tmp_path / "shm", tmp_path / "temporary"
    regions.mkdir()
    prefix = f"{PREFIX}1234abcd_"
    (regions / f"{prefix}lock").touch()
    (temporary / prefix / MPS).mkdir(parents=True)

    assert remove_stale(regions, temporary) == [prefix]

    assert [call[:3] for call in control.calls] == [
        ["", "quit -t 10", f"{temporary}/{prefix}/mps/pipe"]
    ]
    assert not (temporary / prefix).exists()


def test_a_run_without_it_has_none_to_end(tmp_path: Path, control: FakeControl) -> None:
    quit_service(tmp_path / "none")

    assert control.calls == []


def engine(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*ENGINE, *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


def test_serve_begins_it_before_triton_and_ends_it_after(
    tmp_path: Path, control: FakeControl
) -> None:
    triton = control.folder / "tritonserver"
    triton.write_text(TRITON, encoding="utf-8")
    triton.chmod(0o755)
    engine(tmp_path, "render", "--model", "hibari", "repository")

    found = engine(tmp_path, "serve", "--repository", "repository", "--mps", *PORTS)

    assert found.returncode == 1
    begun, ended = control.calls
    assert (begun[0], ended[1]) == ("-d", "quit -t 10")
    assert begun[2:] == ended[2:]
    assert f"its pipes are in {begun[2]}" in found.stderr


def test_a_cpu_is_not_shared(tmp_path: Path, control: FakeControl) -> None:
    found = engine(tmp_path, "serve", "--mps", *PORTS)

    assert found.returncode == 1
    assert "--mps has no effect: on a CPU there is no GPU to share; add --device" in found.stderr
    assert control.calls == []
