"""Files that are locks: the kernel frees one when its holder dies, in whatever way."""

from __future__ import annotations

import fcntl
import logging
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HOLDER_BYTES = 200

log = logging.getLogger(__name__)


@contextmanager
def alone(folder: Path, path: Path) -> Iterator[None]:
    """Be the only process to write `folder`, among those that take the lock at `path` for it.

    Another is waited for, and named in the log. The file is gone in the end.
    """

    def say_holder(holder: str) -> None:
        log.info("engine.waiting folder=%s reason=%s is making it", folder, holder)

    lock = hold(path, say_holder, mode=0o666)
    try:
        # Others do without the name where the disk is full.
        with suppress(OSError):
            os.ftruncate(lock, 0)
            os.write(lock, f"process {os.getpid()} on {os.uname().nodename}".encode())
        yield
    finally:
        # In some folders only its owner may; what is left holds nobody up. Where the folder was
        # replaced, the file there is another one's.
        with suppress(OSError):
            if path.stat().st_ino == os.fstat(lock).st_ino:
                path.unlink()
        os.close(lock)


def hold(
    path: Path, say_holder: Callable[[str], object] = lambda _: None, *, mode: int = 0o600
) -> int:
    """Return a descriptor that has the lock until it is closed.

    Where another has it, that one is told to `say_holder` and waited for.
    """
    while True:
        lock = _open(path, mode)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, HOLDER_BYTES, 0).decode(errors="replace")
            say_holder(holder or "another process")
            fcntl.flock(lock, fcntl.LOCK_EX)
        # The file may have been removed before it was locked, and the next one takes a new file.
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(lock).st_ino:
                return lock
        os.close(lock)


def _open(path: Path, mode: int) -> int:
    """Open the file, or make it. A link is refused: what it points to may be anybody's."""
    while True:
        with suppress(FileNotFoundError):
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        with suppress(FileExistsError):
            lock = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, mode)
            # What the process masks of a new file's mode would shut other users out.
            os.fchmod(lock, mode)
            return lock
