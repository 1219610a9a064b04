"""Which language model a repository has already, beside what is to be rendered into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import EngineError
from engine.llm import MODEL as OWN
from engine.render import CONFIG, read_config
from engine.site import LANGUAGE_MODELS
from engine.tensorrtllm import MODEL as ENGINES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from speech_wire import ModelSpec

TENSORS = {"input": "input_ids", "output": "output_ids"}
"""What is asked of a language model that is not rendered here."""


def check_language_model(repository: Path, name: str) -> None:
    """Raise EngineError unless the repository has a language model of that name."""
    config = repository / name / CONFIG
    if not config.is_file():
        raise EngineError(
            f"--llm {name} is not known: there are {', '.join(LANGUAGE_MODELS)}, and a model that "
            "is in the repository already, which has none of that name"
        )
    found = read_config(config)
    for part, tensor in TENSORS.items():
        if tensor not in [each.get("name") for each in found.get(part, ())]:
            raise EngineError(
                f"--llm {name} is no language model: {config} has no {part} {tensor}; there are "
                f"{', '.join(LANGUAGE_MODELS)}"
            )


def check_no_other(repository: Path, specs: Iterable[ModelSpec]) -> None:
    """Raise EngineError where a language model of another kind would be loaded for nothing."""
    called = {spec.parameters["llm"] for spec in specs if "llm" in spec.parameters}
    for name in sorted({OWN, ENGINES} - called):
        if called and (repository / name / CONFIG).is_file():
            raise EngineError(
                f"{repository / name} is a language model of another kind, which would be loaded "
                "beside the new one; remove it, or render into another folder"
            )
