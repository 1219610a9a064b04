"""Spark-TTS's folder LLM as far as the engine reads it: a vocabulary and some weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIRST_SEMANTIC_ID = 40
ROWS = 8300
WEIGHT_BYTES = 3_000_000
FILES = {
    "BiCodec/config.yaml": "audio_tokenizer: {mel_params: {}, encoder: {}, decoder: {}, "
    "quantizer: {}, speaker_encoder: {}, prenet: {}}",
    "wav2vec2-large-xlsr-53/config.json": '{"model_type": "wav2vec2"}',
    "wav2vec2-large-xlsr-53/preprocessor_config.json": "{}",
    "config.yaml": "sample_rate: 16000",
}


def write_weights(path: Path, size: int = 1000, seed: int = 0) -> None:
    """Write a safetensors file of that many bytes, with one tensor of noise."""
    data = np.random.default_rng(seed).bytes(size - 8 - 120)
    noise = {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}
    header = json.dumps({"noise": noise}).encode().ljust(120)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


def write_llm(folder: Path, change: Callable[[dict[str, int]], object] | Any = None) -> None:
    """Write config.json and tokenizer.json; `change` may spoil the ids of the added tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = {f"<|bicodec_semantic_{code}|>": FIRST_SEMANTIC_ID + code for code in range(8192)}
    ids |= {"<|im_end|>": 3, "<|end_semantic_token|>": FIRST_SEMANTIC_ID + 8192}
    if change is not None:
        change(ids)
    added = [{"id": token_id, "content": text} for text, token_id in ids.items()]
    tokenizer = {"model": {"vocab": {"a": 0, "b": 1, "c": 2}}, "added_tokens": added}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    config: dict[str, object] = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}
    config |= {"vocab_size": ROWS, "eos_token_id": 3}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def write_checkpoint(folder: Path) -> None:
    """Write all that Spark-TTS's models look for, with weights of noise."""
    write_llm(folder / "LLM")
    write_weights(folder / "LLM" / "model.safetensors", WEIGHT_BYTES)
    for part in ("BiCodec", "wav2vec2-large-xlsr-53"):
        write_weights(folder / part / "model.safetensors")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
