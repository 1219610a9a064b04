"""Whether a folder is a whole checkpoint of Spark-TTS-0.5B, known in a second and without torch."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from engine.artefacts import check_manifest
from engine.errors import EngineError
from engine.fingerprints import MANIFEST
from engine.vocabulary import read_json, read_vocabulary
from engine.weights import check_weights, read_header

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BICODEC = "BiCodec/config.yaml"
BICODEC_WEIGHTS = "BiCodec/model.safetensors"
WAV2VEC2 = "wav2vec2-large-xlsr-53"
WAV2VEC2_FILES = (f"{WAV2VEC2}/config.json", f"{WAV2VEC2}/preprocessor_config.json")
NEEDED_FILES = (
    "LLM/tokenizer.json",
    "LLM/config.json",
    BICODEC,
    BICODEC_WEIGHTS,
    *WAV2VEC2_FILES,
)
EMBEDDING = "model.embed_tokens.weight"
LAYER = re.compile(r"model\.layers\.(\d+)\.")
"""What Qwen2's tensors are called."""

SECTIONS = (
    *("audio_tokenizer", "mel_params", "encoder", "decoder", "quantizer", "speaker_encoder"),
    "prenet",
)
"""What the codec is built from. Whoever renders need not have a parser of YAML."""


def check_checkpoint(folder: Path, *, needs_llm: bool = True) -> None:
    """Raise EngineError for a checkpoint that lacks something, or of which a file is not whole.

    Without `needs_llm` the language model's weights may be elsewhere, in an engine. A folder with
    a manifest, as `download` leaves it, is held against that, too.
    """
    if not folder.is_dir():
        raise EngineError(f"{folder} is no folder; --model-dir is that of Spark-TTS-0.5B")
    if missing := [name for name in NEEDED_FILES if not (folder / name).is_file()]:
        raise EngineError(
            f"{folder} is no checkpoint of Spark-TTS-0.5B: it lacks {', '.join(missing)}"
        )
    if (folder / MANIFEST).exists():
        check_manifest(folder, "fetch it again")
    config, recordings = (folder / name for name in WAV2VEC2_FILES)
    _check_type(config, "wav2vec2")
    read_json(recordings)
    read_vocabulary(folder / "LLM")
    _check_bicodec(folder / BICODEC)
    read_header(folder / BICODEC_WEIGHTS)
    check_weights(folder / WAV2VEC2)
    if needs_llm:
        check_language_model(folder / "LLM")


def check_language_model(llm: Path) -> None:
    """Raise EngineError where the folder LLM has not all of its weights, each file whole.

    Or where they are of another size than its configuration says.
    """
    _check_sizes(llm / "config.json", check_weights(llm))
    index = llm / "model.safetensors.index.json"
    if not index.is_file():
        return
    named = read_json(index).get("weight_map")
    if not isinstance(named, dict):
        raise EngineError(f"{index} has no weight_map; fetch it again")
    files = {str(name) for name in named.values()}
    if missing := sorted(name for name in files if not (llm / name).is_file()):
        raise EngineError(f"{llm} lacks {', '.join(missing)}, which {index.name} names")


def _check_type(path: Path, wanted: str) -> dict[str, Any]:
    config = read_json(path)
    if (given := config.get("model_type")) != wanted:
        raise EngineError(
            f"{path} is no configuration of {wanted}: its model_type is {json.dumps(given)}; fetch "
            "it again"
        )
    return config


def _check_sizes(path: Path, shapes: Mapping[str, Any]) -> None:
    config, embedding = _check_type(path, "qwen2"), shapes.get(EMBEDDING)
    layers = {int(number[1]) for name in shapes if (number := LAYER.match(name))}
    found = {
        "hidden_size": embedding[-1] if isinstance(embedding, list) and embedding else None,
        "num_hidden_layers": len(layers) or None,
    }
    for name, size in found.items():
        if size is not None and config.get(name) != size:
            raise EngineError(
                f"{path} says {name} {json.dumps(config.get(name))}, the weights beside it have "
                f"{size}; take both from one revision"
            )


def _check_bicodec(path: Path) -> None:
    text = path.read_bytes().decode(errors="replace")
    found = set(re.findall(r"(\w+)[\"']?\s*:", text))
    if missing := [name for name in SECTIONS if name not in found]:
        raise EngineError(
            f"{path} is no configuration of BiCodec: it lacks {', '.join(missing)}; was it written "
            "to its end?"
        )
