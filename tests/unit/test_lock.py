"""One process at a time, whatever became of those before."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from engine.artefacts import alone_in, replace
from engine.lock import alone, hold

if TYPE_CHECKING:
    import logging
    from pathlib import Path


class Waits:
    """Sees in the log that somebody waits."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    def filter(self, record: logging.LogRecord) -> bool:
        if "engine.waiting" in record.getMessage():
            self.begun.set()
        return True


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


def test_another_user_may_wait_for_it(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with alone(tmp_path, tmp_path / "lock"):
            assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(before)


def test_a_link_in_the_locks_place_is_refused_and_what_it_points_to_left(tmp_path: Path) -> None:
    """In a folder of another user it may point to any file of ours."""
    (tmp_path / "ours").write_text("secret")
    (tmp_path / "ours").chmod(0o600)
    (tmp_path / "lock").symlink_to(tmp_path / "ours")

    with pytest.raises(OSError, match="symbolic link"), alone(tmp_path, tmp_path / "lock"):
        pass

    assert (tmp_path / "ours").read_text() == "secret"
    assert (tmp_path / "ours").stat().st_mode & 0o777 == 0o600


def test_the_mode_of_a_file_that_is_there_is_left(tmp_path: Path) -> None:
    (tmp_path / "lock").touch(0o600)

    with alone(tmp_path, tmp_path / "lock"):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600


def test_a_folder_that_somebody_writes_in_is_not_replaced_meanwhile(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    waits = Waits()
    caplog.handler.addFilter(waits)
    folder = tmp_path / "repository"
    folder.mkdir()

    def write(part: Path) -> None:
        (part / "new").touch()

    replacing = threading.Thread(target=lambda: replace(folder, write))
    with alone_in(folder):
        replacing.start()
        assert waits.begun.wait(10)
        (folder / "old").touch()
    replacing.join(10)

    assert [path.name for path in folder.iterdir()] == ["new"]
    assert f"engine.waiting folder={folder} reason={ME}" in caplog.text


def test_the_lock_of_a_folder_in_its_place_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()

    with alone(folder, folder / ".lock"):
        folder.rename(tmp_path / "old")
        folder.mkdir()
        (folder / ".lock").touch()

    assert (folder / ".lock").exists()
