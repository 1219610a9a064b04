"""Whether the Python that runs the models has the packages which they need, before it is started.

Else each of them fails with a traceback of its own, once Triton has started.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError
from engine.render import CONFIG, read_config
from engine.site import TRANSFORMERS, VLLM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

PYTHON = "python3"
"""Triton's Python backend takes the first one on PATH, and not PYTHONPATH."""

SPARK = "spark"
CODEC = ("torch", "safetensors", "yaml")
NEEDS = {
    "audio_tokenizer": (SPARK, (*CODEC, "transformers")),
    "front": (SPARK, ("tokenizers",)),
    "spark": (SPARK, ("tokenizers",)),
    "vocoder": (SPARK, CODEC),
}
"""Extra and packages by the module of speech_backend that a model's source imports."""

LANGUAGE_MODELS = {
    TRANSFORMERS: (SPARK, ("torch", "transformers", "tokenizers")),
    VLLM: (VLLM, ("torch", "vllm", "tokenizers")),
}
"""The same by what runs the language model."""

IMPORT = re.compile(r"^(?:from|import)\s+speech_backend\.(\w+)", re.MULTILINE)
FIND = "import sys, importlib.util as u; print(*(n for n in sys.argv[1:] if not u.find_spec(n)))"


def check_packages(repository: Path, models: Iterable[str], environment: Mapping[str, str]) -> None:
    """Raise EngineError, with the extra to install, for a model whose packages are not there.

    `environment` is tritonserver's. A model with an environment of its own has its packages there.
    """
    needs = {model: _needs(repository / model) for model in models}
    packages = sorted({name for each in needs.values() for _, names in each for name in names})
    if not packages:
        return
    python = shutil.which(PYTHON, path=environment.get("PATH"))
    if python is None:
        raise EngineError(f"no {PYTHON} is on PATH, with which Triton runs the models")
    absent = _absent(python, packages)
    for model, extras in needs.items():
        for extra, names in extras:
            if missing := [name for name in names if name in absent]:
                raise EngineError(
                    f"model '{model}' needs the extra {extra}: pip install "
                    f"'speech-gateway[{extra}]' ({python} has no {', '.join(missing)})"
                )


def _needs(folder: Path) -> list[tuple[str, tuple[str, ...]]]:
    """Return extra and packages of each module that the model's source imports."""
    config = read_config(folder / CONFIG)
    parameters: dict[str, Any] = config.get("parameters", {})
    source = folder / "1" / "model.py"
    if not source.is_file() or "EXECUTION_ENV_PATH" in parameters:
        return []
    modules = IMPORT.findall(source.read_text(encoding="utf-8", errors="replace"))
    found = [NEEDS[name] for name in modules if name in NEEDS]
    if "generation" in modules:
        engine = parameters.get("engine", {}).get("string_value")
        found += [LANGUAGE_MODELS[engine]] if engine in LANGUAGE_MODELS else []
    return found


def _absent(python: str, packages: Iterable[str]) -> list[str]:
    # Not in a folder of the user's, which would be looked into first.
    done = subprocess.run(
        [python, "-E", "-c", FIND, *packages], cwd="/", capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise EngineError(f"{python} does not run, and models would not: {done.stderr.strip()}")
    return done.stdout.split()
