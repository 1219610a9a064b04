"""What trtllm-build leaves in a folder, as far as anybody reads it here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def write_engine(folder: Path, version: str = "0.17.0.post1", **changed: Any) -> Path:
    """Write the configuration of an engine of Spark-TTS's, built on an L4, and some engine.

    `changed` replaces values of it, wherever they stand.
    """
    config: dict[str, Any] = {
        "version": version,
        "pretrained_config": {
            "architecture": "Qwen2ForCausalLM",
            "dtype": "bfloat16",
            "vocab_size": 166_000,
            "mapping": {"world_size": 1, "tp_size": 1, "pp_size": 1},
        },
        "build_config": {
            "max_input_len": 1024,
            "max_seq_len": 32_768,
            "max_batch_size": 16,
            "max_beam_width": 1,
            "max_num_tokens": 32_768,
            "kv_cache_type": "PAGED",
            "plugin_config": {"remove_input_padding": True, "use_paged_context_fmha": False},
        },
    }
    for part in _parts(config):
        part.update({name: value for name, value in changed.items() if name in part})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "rank0.engine").write_bytes(b"engine")
    return folder


def _parts(value: dict[str, Any]) -> list[dict[str, Any]]:
    inner = [part for part in value.values() if isinstance(part, dict)]
    return [value, *(found for part in inner for found in _parts(part))]
