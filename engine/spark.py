"""Spark-TTS's models: the front that callers know, and the stages behind it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from engine.errors import EngineError
from engine.llm import llm_spec
from speech_wire import CANCEL_PARAMETER, INPUTS, OUTPUTS, ModelSpec, TensorSpec

if TYPE_CHECKING:
    from pathlib import Path

    from engine.site import Site

NEEDED_FILES = (
    "LLM/tokenizer.json",
    "LLM/config.json",
    "BiCodec/config.yaml",
    "BiCodec/model.safetensors",
    "wav2vec2-large-xlsr-53/config.json",
)
TRANSFORMERS = "transformers"
"""The language model that this project serves itself; any other name is that of a model which is
in the repository already, such as `tensorrt_llm`."""

SAMPLE_RATE_HZ = "16000"
MAX_TEXT_CHARACTERS = "240"
"""Even if all of them are digits, their speech and a reference of 20 s fit into a sequence."""

MAX_WINDOWS_AT_ONCE = 16
HASHED_BYTES = 2**20


def spark_specs(site: Site) -> tuple[ModelSpec, ...]:
    """Return the stages and then the front; raises EngineError without a complete checkpoint."""
    if site.model_dir is None:
        raise EngineError(
            "model 'spark_tts' needs a checkpoint: --model-dir with the folder of Spark-TTS-0.5B"
        )
    folder = site.model_dir.resolve()
    if missing := [name for name in NEEDED_FILES if not (folder / name).is_file()]:
        raise EngineError(
            f"{folder} is no checkpoint of Spark-TTS-0.5B: it lacks {', '.join(missing)}"
        )
    llm = llm_spec(folder, site.device, site.dtype, site.threads)
    own = (llm,) if site.llm == TRANSFORMERS else ()
    return (*own, _vocoder(site, folder), _audio_tokenizer(site, folder), _front(site, folder))


def _front(site: Site, folder: Path) -> ModelSpec:
    inputs = {"voice", "speed"}
    return ModelSpec(
        name="spark_tts",
        inputs=tuple(spec for spec in INPUTS if spec.name not in inputs),
        outputs=OUTPUTS,
        parameters={
            "model_dir": str(folder),
            "triton_address": site.triton_address,
            "llm": "llm" if site.llm == TRANSFORMERS else site.llm,
            "vocoder": "vocoder",
            "audio_tokenizer": "audio_tokenizer",
            "max_sequence_tokens": str(site.max_sequence_tokens),
            "max_text_characters": MAX_TEXT_CHARACTERS,
            "sample_rate_hz": SAMPLE_RATE_HZ,
            "checkpoint": _checkpoint(folder),
            CANCEL_PARAMETER: "true",
        },
    )


def _vocoder(site: Site, folder: Path) -> ModelSpec:
    return ModelSpec(
        name="vocoder",
        inputs=(
            TensorSpec("semantic_tokens", "INT32", (-1,), optional=False),
            TensorSpec("length", "INT32", (1,), optional=False),
            TensorSpec("global_tokens", "INT32", (32,), optional=False),
        ),
        outputs=(TensorSpec("waveform", "FP32", (-1,), optional=False),),
        decoupled=False,
        max_batch_size=MAX_WINDOWS_AT_ONCE,
        batches_dynamically=True,
        parameters=_compute(site, folder),
    )


def _audio_tokenizer(site: Site, folder: Path) -> ModelSpec:
    return ModelSpec(
        name="audio_tokenizer",
        inputs=(
            TensorSpec("reference_wav", "FP32", (-1,), optional=False),
            TensorSpec("reference_wav_len", "INT32", (1,), optional=False),
        ),
        outputs=(
            TensorSpec("global_tokens", "INT32", (32,), optional=False),
            TensorSpec("semantic_tokens", "INT32", (-1,), optional=False),
        ),
        decoupled=False,
        parameters=_compute(site, folder),
    )


def _compute(site: Site, folder: Path) -> dict[str, str]:
    return {
        "model_dir": str(folder),
        "device": site.device,
        "dtype": site.dtype,
        "threads": str(site.threads),
        "checkpoint": _checkpoint(folder),
    }


def _checkpoint(folder: Path) -> str:
    """Return what tells these weights from others: tokens of one codec mean nothing to another.

    The names and places of all tensors and the first of their values, instead of gigabytes.
    """
    weights = folder / "BiCodec" / "model.safetensors"
    with weights.open("rb") as file:
        head = file.read(HASHED_BYTES)
    return hashlib.sha256(head + str(weights.stat().st_size).encode()).hexdigest()[:16]
