"""CUDA's Multi-Process Service: the models' processes compute on a GPU at once, not in turns."""

from __future__ import annotations

import logging
import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTROL = "nvidia-cuda-mps-control"
START_SECONDS = 30.0
QUIT_SECONDS = 10
"""How long clients that are left may take to end before they are ended."""

log = logging.getLogger(__name__)


@contextmanager
def multi_process_service(folder: Path) -> Iterator[dict[str, str]]:
    """Run its daemon until the end of the block; what it writes is in `folder`, which is made.

    Yields the variables that make a process its client. Raises EngineError where there is no
    daemon, or it does not start.
    """
    folder.mkdir(mode=0o700)
    for directory in _variables(folder).values():
        Path(directory).mkdir()
    try:
        _start(folder)
        yield _variables(folder)
    finally:
        quit_service(folder)


def quit_service(folder: Path) -> None:
    """End the daemon that began with `folder`, if one did."""
    if not folder.is_dir():
        return
    try:
        subprocess.run(
            [CONTROL],
            env=_environment(folder),
            input=f"quit -t {QUIT_SECONDS}\n".encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=2 * QUIT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        return
    except subprocess.TimeoutExpired:
        log.warning("engine.mps_left folder=%s reason=%s does not answer", folder, CONTROL)


def _start(folder: Path) -> None:
    said = folder / "said"
    try:
        # Into a file, since the daemon may keep a pipe open for ever.
        with said.open("wb") as words:
            done = subprocess.run(
                [CONTROL, "-d"],
                env=_environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=subprocess.STDOUT,
                timeout=START_SECONDS,
                check=False,
            )
    except FileNotFoundError as error:
        raise EngineError(
            f"--mps needs {CONTROL}, which is not on PATH; it comes with NVIDIA's driver (in "
            "containers with NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"{CONTROL} has not started within {START_SECONDS:g} s") from error
    if done.returncode:
        reason = said.read_text(encoding="utf-8", errors="replace").strip() or "it said nothing"
        raise EngineError(f"{CONTROL} ended with exit code {done.returncode}: {reason}")


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, **_variables(folder)}


def _variables(folder: Path) -> dict[str, str]:
    return {
        "CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"),
        "CUDA_MPS_LOG_DIRECTORY": str(folder / "log"),
    }
