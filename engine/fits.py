"""Says whether engines fit the machine that is to serve them, before Triton fails in its words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine.build import built_on
from engine.convert import installed_version
from engine.errors import EngineError
from engine.gpu import find_gpus, is_named
from engine.render import CONFIG, read_config
from engine.spec import CAPABILITIES
from engine.tensorrtllm import BACKEND
from engine.vocabulary import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable


def check_engines(repository: Path, models: Iterable[str]) -> None:
    """Raise EngineError for a model whose engine is for another GPU or release than there is."""
    for model in models:
        config = read_config(repository / model / CONFIG)
        engine = config.get("parameters", {}).get("gpt_model_path", {}).get("string_value")
        if config.get("backend") == BACKEND and engine is not None:
            _check(Path(engine))


def _check(engine: Path) -> None:
    config = read_json(engine / "config.json")
    made_by, here = config.get("version"), installed_version()
    # The backend needs no TensorRT-LLM in Python, though NVIDIA's images have both.
    if here is not None and made_by != here:
        raise EngineError(
            f"{engine} was built by TensorRT-LLM {made_by}, here is {here}, and an engine runs "
            "only in the release that built it; serve it in that image, or build it in this one"
        )
    noted, gpus = built_on(config) or "", find_gpus()
    gpu = next((word for word in CAPABILITIES if is_named(noted, word)), None)
    if gpu is not None and not any(is_named(found.name, gpu) for found in gpus):
        there = ", ".join(found.name for found in gpus)
        raise EngineError(
            f"{engine} was built on {gpu}, here there is {there}, and an engine runs only "
            "on the GPU that it was built for; build it here"
        )
