"""Where the steps from weights to an engine keep what they make, by the names of a spec."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.artefacts import read_manifest
from engine.build import build
from engine.checkpoint import check_checkpoint
from engine.convert import Scripts, convert, prune
from engine.download import SPARK_TTS_FILES, Source, download
from engine.fingerprints import digest_whole
from engine.spec import MODEL

if TYPE_CHECKING:
    from pathlib import Path

    from engine.spec import EngineSpec


@dataclass(frozen=True, slots=True)
class Workplace:
    """The folders of a spec below `folder`; `model_dir` are weights that lie elsewhere."""

    folder: Path
    spec: EngineSpec
    model_dir: Path | None = None
    scripts: Scripts = field(default_factory=Scripts)

    @classmethod
    def of_local_weights(
        cls, folder: Path, spec: EngineSpec, model_dir: Path, scripts: Scripts
    ) -> Workplace:
        """Return one whose spec is of the weights in `model_dir`; raises EngineError for others."""
        check_checkpoint(model_dir)
        revision = f"local-{digest_whole(model_dir / 'LLM')}"
        own = replace(spec, model=model_dir.resolve().name, revision=revision)
        return cls(folder, own, model_dir, scripts)

    @property
    def weights(self) -> Path:
        """The checkpoint of Spark-TTS, with its folder LLM."""
        return self.model_dir or self.folder / "weights" / self.spec.weights_key()

    @property
    def llm(self) -> Path:
        """The language model that is converted."""
        if self.spec.pruned_head:
            return self.folder / "pruned" / self.spec.weights_key()
        return self.weights / "LLM"

    @property
    def checkpoint(self) -> Path:
        """TensorRT-LLM's checkpoint."""
        return self.folder / "checkpoint" / self.spec.checkpoint_key()

    @property
    def engine(self) -> Path:
        """The engine."""
        return self.folder / "engine" / self.spec.key()

    @property
    def repository(self) -> Path:
        """Triton's model repository."""
        return self.folder / "repository" / self.spec.key()

    def fetch(self) -> str | None:
        """Have the weights here; return the commit that they are of, None for local ones."""
        if self.model_dir is not None:
            return None
        source = Source(self.spec.model, self.spec.revision, SPARK_TTS_FILES)
        return download(source, self.weights)

    def convert(self) -> None:
        """Make the checkpoint of the weights, unless it is there."""
        if self.model_dir is None:
            read_manifest(self.weights, self._step("download"))
        if self.spec.pruned_head:
            prune(self.weights / "LLM", self.llm)
        convert(self.spec, self.llm, self.checkpoint, self.scripts)

    def build(self) -> None:
        """Make the engine of the checkpoint, unless it is there."""
        read_manifest(self.checkpoint, self._step("convert"))
        build(self.spec, self.checkpoint, self.engine)

    def _step(self, name: str) -> str:
        """Return the step, with the command that does it."""
        work = shlex.quote(str(self.folder))
        if name != "download":
            return f"`python -m engine {name} --work {work}`, with the same options"
        spec = self.spec
        # Of other repositories `download` takes all files, unless it is told which.
        patterns = SPARK_TTS_FILES if spec.model != MODEL else ()
        allowed = "".join(f" --allow {shlex.quote(pattern)}" for pattern in patterns)
        source = shlex.quote(f"{spec.model}@{spec.revision}")
        return f"`python -m engine download --work {work} {source}{allowed}`"
