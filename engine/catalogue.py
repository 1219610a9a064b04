"""The models that can be served here, as ModelSpecs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from engine.errors import EngineError
from speech_wire import (
    CANCEL_PARAMETER,
    GENERATION_INPUTS,
    GENERATION_OUTPUTS,
    INPUTS,
    OUTPUTS,
    ModelSpec,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def hibari_spec() -> ModelSpec:
    """Describe the embedded voice; only voices whose files are present are offered.

    Raises EngineError where the package is not installed.
    """
    try:
        from hibari.voices import VOICES, voice_path  # noqa: PLC0415  an optional extra
    except ImportError as error:
        raise EngineError(
            "model 'hibari' needs the package hibari-tts: pip install 'speech-gateway[embedded]'"
        ) from error
    voices = []
    for name, voice in VOICES.items():
        try:
            voice_path(name, download_missing=False)
        except FileNotFoundError:
            continue
        voices.append({"id": name, "language": voice["language"]})
    inputs = {"target_text", "voice", "seed"}
    return ModelSpec(
        name="hibari",
        inputs=tuple(spec for spec in INPUTS if spec.name in inputs),
        outputs=tuple(spec for spec in OUTPUTS if spec.name != "global_tokens"),
        parameters={
            "voices": json.dumps(voices),
            "sample_rate_hz": "24000",
            "scripts": json.dumps(["Latin"]),
            CANCEL_PARAMETER: "true",
        },
    )


def llm_spec(model_dir: Path, device: str = "cpu", dtype: str = "float32") -> ModelSpec:
    """Describe Spark-TTS's language model; `model_dir` is the checkpoint, with its folder LLM.

    Raises EngineError where that is missing.
    """
    if not (model_dir / "LLM" / "config.json").is_file():
        raise EngineError(
            f"{model_dir} is no checkpoint of Spark-TTS: it has no LLM/config.json; "
            "`python -m engine fixture` writes one of random weights"
        )
    return ModelSpec(
        name="llm",
        inputs=GENERATION_INPUTS,
        outputs=GENERATION_OUTPUTS,
        # Only so that tensors have tensorrt_llm's batch dimension: a request is one sequence.
        max_batch_size=1,
        parameters={
            "model_dir": str(model_dir.absolute()),
            "device": device,
            "dtype": dtype,
            "exclude_input_in_output": "true",
            CANCEL_PARAMETER: "true",
        },
    )


MODELS: dict[str, Callable[[], ModelSpec]] = {"hibari": hibari_spec}


def find_spec(name: str) -> ModelSpec:
    """Return the model of that name; raises EngineError naming those there are."""
    if name not in MODELS:
        raise EngineError(f"model '{name}' is not known; there are: {', '.join(MODELS)}")
    return MODELS[name]()
