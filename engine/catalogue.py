"""The models that can be served here, as ModelSpecs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from engine.errors import EngineError
from engine.spark import spark_specs
from speech_wire import CANCEL_PARAMETER, INPUTS, OUTPUTS, ModelSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.site import Site


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


MODELS: dict[str, Callable[[Site], tuple[ModelSpec, ...]]] = {
    "hibari": lambda _: (hibari_spec(),),
    "spark_tts": spark_specs,
}
DEFAULT_MODEL = "hibari"


def find_specs(name: str, site: Site) -> tuple[ModelSpec, ...]:
    """Return the model of that name after the models that it calls.

    Raises EngineError naming those there are, or what a model lacks.
    """
    if name not in MODELS:
        raise EngineError(f"model '{name}' is not known; there are: {', '.join(MODELS)}")
    return MODELS[name](site)
