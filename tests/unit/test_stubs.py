"""Which of a server's processes is a stub; here this process stands for the server."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from engine.stubs import STUB, Stubs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def ended(program: Path) -> Iterator[None]:
    """Give a child that has ended and that nobody has asked about yet."""
    child = subprocess.Popen([program, "-c", "exit 1"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    try:
        yield
    finally:
        child.wait()


@pytest.mark.parametrize(
    ("name", "has_failed"), [(STUB, True), ("bash", True), ("sh", False)], ids=str
)
def test_only_a_stub_that_has_ended_is_a_failed_start(
    name: str, tmp_path: Path, *, has_failed: bool
) -> None:
    """Triton runs `sh` while it loads models; one of those, just ended, is no stub."""
    shell = shutil.which("sh")
    assert shell is not None
    shutil.copy(shell, tmp_path / name)
    stubs = Stubs(os.getpid())
    assert not stubs.has_failed_to_start()

    with ended(tmp_path / name):
        assert stubs.has_failed_to_start() is has_failed
