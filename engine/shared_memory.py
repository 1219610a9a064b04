"""Owns the names of Triton's shared memory regions, so that what a crash leaves can be removed.

The Python backend names its regions in /dev/shm by a prefix of our choice. Each run takes a
fresh prefix and holds a lock file of that name; the kernel drops the lock when the process
dies in whatever way, so a prefix whose lock can be taken belongs to nobody. (A process number
would not do: containers that share /dev/shm do not share process numbers.)
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from engine.errors import EngineError

DIRECTORY = Path("/dev/shm")  # noqa: S108  the place is Triton's, the names are random
PREFIX = "speech_triton_"
NEEDED_BYTES = 32 * 2**20
"""A model instance maps 1 MiB and grows with what is in flight; 0.5 s chunks are 48 kB."""


class RegionPrefix:
    """A prefix for shared memory regions that is this process's alone until `close`."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        self._directory = directory
        self.name = f"{PREFIX}{secrets.token_hex(4)}_"
        self._lock_path = directory / f"{self.name}lock"
        self._lock = _hold(self._lock_path)

    def close(self) -> None:
        """Remove all regions of this prefix, then the lock."""
        _remove(self._directory, self.name)
        os.close(self._lock)


def _hold(path: Path) -> int:
    # Another process may have seen the new file before it was locked, and removed it.
    while True:
        lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(lock).st_ino:
                return lock
        os.close(lock)


def remove_stale(directory: Path = DIRECTORY) -> list[str]:
    """Remove the regions of runs that died; return the prefixes that were removed."""
    removed = []
    for lock_path in directory.glob(f"{PREFIX}*lock"):
        try:
            lock = os.open(lock_path, os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, PermissionError):
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            prefix = lock_path.name.removesuffix("lock")
            _remove(directory, prefix)
            removed.append(prefix)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)
    return removed


def check_free(directory: Path = DIRECTORY) -> None:
    """Raise EngineError where shared memory is too small for a model to speak."""
    free = shutil.disk_usage(directory).free
    if free < NEEDED_BYTES:
        raise EngineError(
            f"{directory} has {free // 2**20} MiB free, a model needs "
            f"{NEEDED_BYTES // 2**20} MiB; give the container more (docker: --shm-size=256m, "
            "compose: shm_size, Kubernetes: an emptyDir with medium Memory)"
        )


def _remove(directory: Path, prefix: str) -> None:
    for path in directory.glob(f"{prefix}*"):
        path.unlink(missing_ok=True)
