"""A stand-in for NVIDIA's `nvidia-cuda-mps-control`: it notes how it was called."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """#!/bin/sh
if [ "$1" = -d ]; then said=; else said=$(cat); fi
echo "$*|$said|$CUDA_MPS_PIPE_DIRECTORY|$CUDA_MPS_LOG_DIRECTORY" >> {calls}
if [ "$1" = -d ]; then {start}; fi
"""


class FakeControl:
    """The program in a folder for PATH; `start` is what it does when it is begun."""

    def __init__(self, folder: Path, start: str = "exit 0") -> None:
        self.folder = folder / "mps-bin"
        self.folder.mkdir()
        self._calls = folder / "mps-calls"
        program = self.folder / "nvidia-cuda-mps-control"
        program.write_text(SCRIPT.format(calls=self._calls, start=start), encoding="utf-8")
        program.chmod(0o755)

    @property
    def calls(self) -> list[list[str]]:
        """Its arguments, what was said to it, its pipes and its logs, of each call."""
        if not self._calls.exists():
            return []
        return [line.split("|") for line in self._calls.read_text(encoding="utf-8").splitlines()]
