"""Says whether what a repository names is whole and for this machine, before Triton fails."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from engine.build import built_on
from engine.checkpoint import check_checkpoint
from engine.convert import installed_version
from engine.errors import EngineError
from engine.gpu import find_gpus, is_named
from engine.render import CONFIG, read_config
from engine.spec import CAPABILITIES
from engine.tensorrtllm import BACKEND, read_engine
from engine.vocabulary import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

STAGES = ("llm", "vocoder", "audio_tokenizer")
"""The parameters of a front that name the models which it calls."""


def check_engines(repository: Path, models: Iterable[str]) -> None:
    """Raise EngineError for a model whose engine is for another GPU or release than there is."""
    for model in models:
        config = read_config(repository / model / CONFIG)
        engine = config.get("parameters", {}).get("gpt_model_path", {}).get("string_value")
        if config.get("backend") == BACKEND and engine is not None:
            _check(Path(engine))


def check_sources(repository: Path, models: Sequence[str]) -> None:
    """Raise EngineError for a model under another name, whose source is not whole or stage absent.

    `models` are those that will be served.
    """
    for model in models:
        folder = repository / model
        if not (folder / CONFIG).stat().st_size:
            raise EngineError(f"{folder / CONFIG} is empty; render it again")
        config = read_config(folder / CONFIG)
        if (name := config.get("name", model)) != model:
            raise EngineError(
                f"{folder} holds model '{name}', and a model's folder has its name; rename it"
            )
        _check_stages(repository, model, config.get("parameters", {}), models)
        if config.get("backend") == "python":
            file = config.get("default_model_filename", "model.py")
            sources = [path for path in folder.glob(f"*/{file}") if path.parent.name.isdecimal()]
            if not sources:
                raise EngineError(f"{folder} has no source: 1/{file} is missing; render it again")
            # An environment of its own may have a later Python, whose words are not known here.
            if "EXECUTION_ENV_PATH" not in config.get("parameters", {}):
                _check_source(max(sources, key=lambda path: int(path.parent.name)))


def _check_stages(
    repository: Path, model: str, parameters: Mapping[str, Mapping[str, str]], models: Sequence[str]
) -> None:
    # Only a front calls its own server.
    for stage in STAGES if "triton_address" in parameters else ():
        name = parameters.get(stage, {}).get("string_value", "")
        if name in models:
            continue
        is_there = (repository / name / CONFIG).is_file()
        remedy = f"add --model {name}, or leave --model out" if is_there else "render it again"
        raise EngineError(
            f"model '{model}' of {repository} calls '{name}' as its {stage}, which would not be "
            f"served: there would be {', '.join(models)}; {remedy}"
        )


def _check_source(path: Path) -> None:
    try:
        code = path.read_bytes()
        ast.parse(code)
    except (SyntaxError, ValueError) as error:
        raise EngineError(f"{path} is no whole Python file ({error}); render it again") from error
    if b"TritonPythonModel" not in code:
        raise EngineError(f"{path} has no TritonPythonModel; was it written to its end?")


def check_checkpoints(repository: Path, models: Iterable[str]) -> None:
    """Raise EngineError for a checkpoint that a repository's models read and that is not whole."""
    needs_llm: dict[str, bool] = {}
    for model in models:
        parameters = read_config(repository / model / CONFIG).get("parameters", {})
        if folder := parameters.get("model_dir", {}).get("string_value"):
            # Of these models only the language model has an engine to name.
            needs_llm[folder] = needs_llm.get(folder, False) or "engine" in parameters
    for folder, needed in needs_llm.items():
        check_checkpoint(Path(folder), needs_llm=needed)


def _check(folder: Path) -> None:
    engine, here = read_engine(folder), installed_version()
    # The backend needs no TensorRT-LLM in Python, though NVIDIA's images have both.
    if here is not None and engine.version != here:
        raise EngineError(
            f"{folder} was built by TensorRT-LLM {engine.version}, here is {here}, and an engine "
            "runs only in the release that built it; serve it in that image, or build it here"
        )
    noted, gpus = built_on(read_json(folder / "config.json")) or "", find_gpus()
    gpu = next((word for word in CAPABILITIES if is_named(noted, word)), None)
    if gpu is not None and not any(is_named(found.name, gpu) for found in gpus):
        there = ", ".join(found.name for found in gpus)
        raise EngineError(
            f"{folder} was built on {gpu}, here there is {there}, and an engine runs only "
            "on the GPU that it was built for; build it here"
        )
