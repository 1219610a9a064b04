"""`ready` asks as the models of a run ask: by the address and the access in the run's folder."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from engine import certs
from engine.server import LOOPBACK_FILE
from fakes.door import server_credentials
from fakes.triton import FakeTriton
from speech_wire import LoopbackAccess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    certs.make(tmp_path, ["triton.internal"], datetime.now(timezone.utc))
    return tmp_path


@pytest.fixture
def far(pki: Path) -> Iterator[FakeTriton]:
    with FakeTriton(credentials=server_credentials(pki)) as triton:
        yield triton


def ready(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-m", "engine", "ready"],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def write_run(folder: Path, address: str, access: LoopbackAccess) -> None:
    run = folder / "speech_triton_0123abcd_"
    run.mkdir()
    replace(access, address=address).write(run / LOOPBACK_FILE)


def test_a_triton_with_tls_is_asked_by_tls(far: FakeTriton, pki: Path, tmp_path: Path) -> None:
    access = LoopbackAccess(str(pki / "ca.pem"), name="triton.internal", headers={})
    write_run(tmp_path, far.address, access)

    done = ready(tmp_path)

    assert (done.returncode, done.stderr) == (0, "")


def test_what_does_not_answer_is_not_ready(far: FakeTriton, tmp_path: Path) -> None:
    write_run(tmp_path, far.address, LoopbackAccess(headers={}))

    done = ready(tmp_path)

    assert done.returncode == 1
    assert done.stderr.startswith(f"error: Triton at {far.address} is not ready: UNAVAILABLE")


def test_without_a_run_there_is_nothing_ready(tmp_path: Path) -> None:
    done = ready(tmp_path)

    assert done.returncode == 1
    assert done.stderr == "error: no `serve` of this user runs on this machine\n"


@pytest.mark.parametrize("written", [None, "", "{"])
def test_what_has_only_begun_is_not_ready(tmp_path: Path, written: str | None) -> None:
    run = tmp_path / "speech_triton_0123abcd_"
    run.mkdir()
    if written is not None:
        (run / LOOPBACK_FILE).write_text(written, "utf-8")

    done = ready(tmp_path)

    assert done.returncode == 1
    assert done.stderr.startswith("error: Triton is not ready: its `serve` is starting")
