"""How large what the steps make will be: measured where the weights are here, else as published."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from engine.weights import read_header

if TYPE_CHECKING:
    from pathlib import Path

    from engine.spec import EngineSpec

DOWNLOAD_BYTES = 4.0e9
"""Of Spark-TTS-0.5B: 2.03 GB language model in float32, the codec, wav2vec2."""

BODY_PARAMETERS = 357.8e6
EMBEDDING_PARAMETERS = 166_000 * 896
EMBEDDINGS = ("embed_tokens", "lm_head")
"""Words in the names of what is never quantized."""

WEIGHT_BYTES = {"int8": 1, "int4": 0.5, "int4_gptq": 0.5, "smoothquant": 1, "fp8": 1}
DTYPE_BYTES = {"bfloat16": 2, "float32": 4}


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def weights_bytes(model_dir: Path | None) -> float:
    """Return the size of a checkpoint of Spark-TTS, without one that of Spark-TTS-0.5B."""
    return DOWNLOAD_BYTES if model_dir is None else folder_bytes(model_dir)


def converted_bytes(spec: EngineSpec, model_dir: Path | None) -> float:
    """Return the size that the language model's parameters have in the spec's precision."""
    body, embeddings = _parameters(spec, model_dir)
    plain = DTYPE_BYTES[spec.dtype]
    return body * WEIGHT_BYTES.get(spec.quantization, plain) + embeddings * plain


def _parameters(spec: EngineSpec, model_dir: Path | None) -> tuple[float, float]:
    paths = [] if model_dir is None else sorted((model_dir / "LLM").glob("*.safetensors"))
    # Torch's own files have no header, and GPTQ packs several weights into a number.
    if not paths or spec.quantization == "int4_gptq":
        return BODY_PARAMETERS, EMBEDDING_PARAMETERS
    body = embeddings = 0
    for path in paths:
        for name, entry in read_header(path)[1].items():
            count = math.prod(entry["shape"])
            if any(word in name for word in EMBEDDINGS):
                embeddings += count
            else:
                body += count
    return body, embeddings
