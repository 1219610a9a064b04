"""CUDA's Multi-Process Service, so that the models' processes compute at once and not in turns."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"


@contextmanager
def multi_process_service(folder: Path) -> Iterator[dict[str, str]]:
    """Run its daemon; give the variables that make a process its client."""
    for name in ("pipe", "log"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    variables = {
        "CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"),
        "CUDA_MPS_LOG_DIRECTORY": str(folder / "log"),
    }
    environment = {**os.environ, **variables}
    subprocess.run([CONTROL, "-d"], env=environment, check=True)
    try:
        yield variables
    finally:
        subprocess.run([CONTROL], env=environment, input=b"quit -t 10\n", check=False)


def mps_clients(variables: dict[str, str]) -> str:
    """Return what the daemon says of its server and of the processes that compute with it."""
    done = subprocess.run(
        [CONTROL], env={**os.environ, **variables}, input="get_server_list\nps\n",
        capture_output=True, text=True, check=False, timeout=10,
    )  # fmt: skip
    return done.stdout + done.stderr
