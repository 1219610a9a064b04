"""The steps from weights to an engine in one folder, on a fake machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.build import build
from engine.convert import Scripts, convert
from engine.spec import EngineSpec
from fakes.checkpoint import write_checkpoint
from fakes.trtllm import FakeMachine

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SPEC = EngineSpec()


class Workshop:
    """A spec's steps on a fake machine."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.llm = folder / "weights" / "LLM"
        self.checkpoint, self.engine = folder / "checkpoint" / "c", folder / "engine" / "e"
        self._patch = monkeypatch
        write_checkpoint(self.llm.parent)
        self.use()

    def use(self, stand_in: str = "", **machine: object) -> None:
        fake = FakeMachine(self.folder / "machine", **machine)  # type: ignore[arg-type]
        for name, value in fake.install().environment(STAND_IN=stand_in).items():
            self._patch.setenv(name, value)
        self._examples = fake.examples

    def convert(self, spec: EngineSpec = SPEC) -> None:
        convert(spec, self.llm, self.checkpoint, Scripts(self._examples))

    def build(self, spec: EngineSpec = SPEC) -> None:
        build(spec, self.checkpoint, self.engine)

    def convert_and_build(self, spec: EngineSpec = SPEC) -> None:
        self.convert(spec)
        self.build(spec)
