"""The engine's command line at work in one folder, on a fake machine."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from fakes.checkpoint import write_checkpoint
from fakes.trtllm import FakeMachine

if TYPE_CHECKING:
    from pathlib import Path

    from fakes.hub import FakeHub

ENGINE = [sys.executable, "-I", "-m", "engine"]

KILL_ITSELF = """
import os, runpy, signal, sys

event, words, *command = sys.argv[1:]

def look(name, arguments):
    if name == event and words in str(arguments):
        os.kill(os.getpid(), signal.SIGKILL)

sys.argv = ["engine", *command]
sys.addaudithook(look)
runpy.run_module("engine", run_name="__main__", alter_sys=True)
"""
"""Runs a command that is killed just before something that the interpreter audits."""


class Builder:
    """Runs the engine's commands in one work folder."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.model_dir = folder / "Spark-TTS-0.5B"
        write_checkpoint(self.model_dir)
        self.machine = FakeMachine(folder / "machine").install()
        self.hub: FakeHub | None = None

    def command(self, name: str, *arguments: str) -> list[str]:
        script = self.machine.examples / "qwen" / "convert_checkpoint.py"
        given = ["--work", str(self.work), "--convert-script", str(script), *arguments]
        return [*ENGINE, name, *given]

    def environment(self, **more: str) -> dict[str, str]:
        endpoint = "http://127.0.0.1:9" if self.hub is None else self.hub.endpoint
        hub = {"HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1"}
        return self.machine.environment(**hub, HF_HUB_DOWNLOAD_TIMEOUT="60", **more)

    def run(self, name: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self._run(self.command(name, *arguments), **more)

    def killed_at(
        self, event: str, words: str, name: str, *arguments: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command up to an audit event (`os.rename`) with these words in its arguments."""
        command = self.command(name, *arguments)[len(ENGINE) :]
        return self._run([sys.executable, "-I", "-c", KILL_ITSELF, event, words, *command])

    def _run(self, command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=self.environment(**more),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def until_it_waits(
        self, tool: str, *arguments: str, mishap: str = "hang"
    ) -> tuple[subprocess.Popen[str], int]:
        """Start `all` and return it, and the tool (or its worker) that it waits for, half-way."""
        process = subprocess.Popen(
            self.command("all", *arguments),
            env=self.environment(STAND_IN=f"{tool}={mishap}"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("waiting pid="):
                return process, int(line.split("=")[1])
        raise AssertionError(process.communicate()[1])

    def made(self) -> set[str]:
        """Return the kinds of folders that are complete."""
        return {path.parent.name for path in self.work.glob("*/[!.]*")}
