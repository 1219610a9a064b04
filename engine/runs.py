"""Owns what a run of Triton leaves on the machine, so that after a crash it can be removed.

The Python backend names its regions in /dev/shm by a prefix of our choice. Each run takes a
fresh prefix and holds a lock file of that name; the kernel drops the lock when the process
dies in whatever way, so a prefix whose lock can be taken belongs to nobody. (A process number
would not do: containers that share /dev/shm do not share process numbers.) The run's folder for
its model repository has the same name.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
from pathlib import Path

from engine.errors import EngineError
from engine.lock import hold
from engine.mps import quit_service
from engine.stubs import kill_orphans

DIRECTORY = Path("/dev/shm")  # noqa: S108  the place is Triton's, the names are random
TEMPORARY = Path(tempfile.gettempdir())
PREFIX = "speech_triton_"
MPS = "mps"
"""Where in a run's folder the Multi-Process Service is, if it has one."""

NEEDED_BYTES = 32 * 2**20
"""A model instance maps 1 MiB and grows with what is in flight; 0.5 s chunks are 48 kB."""


class Run:
    """A name for shared memory regions and a folder, this process's alone until `close`."""

    def __init__(self, directory: Path = DIRECTORY, temporary: Path = TEMPORARY) -> None:
        self._directory = directory
        self.region_prefix = f"{PREFIX}{secrets.token_hex(4)}_"
        self._lock = hold(directory / f"{self.region_prefix}lock")
        self.folder = temporary / self.region_prefix
        self.folder.mkdir(mode=0o700)

    def close(self) -> None:
        """Remove the folder, all regions and the lock."""
        shutil.rmtree(self.folder, ignore_errors=True)
        _unlink(self._directory, self.region_prefix)
        os.close(self._lock)


def remove_stale(directory: Path = DIRECTORY, temporary: Path = TEMPORARY) -> list[str]:
    """End and remove what is left of runs that died; return their region prefixes."""
    removed = []
    for lock_path in directory.glob(f"{PREFIX}*lock"):
        try:
            lock = os.open(lock_path, os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, PermissionError):
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            prefix = lock_path.name.removesuffix("lock")
            kill_orphans(prefix)
            quit_service(temporary / prefix / MPS)
            shutil.rmtree(temporary / prefix, ignore_errors=True)
            _unlink(directory, prefix)
            removed.append(prefix)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)
    return removed


def find_folders(temporary: Path = TEMPORARY) -> list[Path]:
    """Return the folders of all runs, those that died included, until the next run starts."""
    return sorted(temporary.glob(f"{PREFIX}*_"))


def check_free(directory: Path = DIRECTORY) -> None:
    """Raise EngineError where shared memory is too small for a model to speak."""
    free = shutil.disk_usage(directory).free
    if free < NEEDED_BYTES:
        raise EngineError(
            f"{directory} has {free // 2**20} MiB free, a model needs "
            f"{NEEDED_BYTES // 2**20} MiB; give the container more (docker: --shm-size=256m, "
            "compose: shm_size, Kubernetes: an emptyDir with medium Memory)"
        )


def _unlink(directory: Path, region_prefix: str) -> None:
    for path in directory.glob(f"{region_prefix}*"):
        path.unlink(missing_ok=True)
