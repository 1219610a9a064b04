"""One process at a time, whatever became of those before."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from engine.lock import alone, hold

if TYPE_CHECKING:
    from pathlib import Path

ME = f"process {os.getpid()} on {os.uname().nodename}"


def test_the_lock_is_gone_with_its_holder(tmp_path: Path) -> None:
    with alone(tmp_path, tmp_path / "lock"):
        assert (tmp_path / "lock").read_text() == ME

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_a_killed_process_has_left_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(f"{ME} and more, as a longer name has")

    with alone(tmp_path, tmp_path / "lock"):
        assert (tmp_path / "lock").read_text() == ME


def test_who_has_waited_for_a_file_that_is_gone_takes_a_new_one(tmp_path: Path) -> None:
    """Else the next process makes a file of that name, and both think themselves alone."""
    waiting, holders, held = threading.Event(), [], []

    def say_holder(holder: str) -> None:
        holders.append(holder)
        waiting.set()

    second = threading.Thread(target=lambda: held.append(hold(tmp_path / "lock", say_holder)))
    with alone(tmp_path, tmp_path / "lock"):
        second.start()
        assert waiting.wait(10)
    second.join(10)

    [lock] = held
    assert os.fstat(lock).st_ino == (tmp_path / "lock").stat().st_ino
    assert holders == [ME]
    os.close(lock)
