"""Stands in for TensorRT-LLM's convert_checkpoint.py of Qwen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from behaviour import go_wrong, mishap, read_arguments

if TYPE_CHECKING:
    import argparse

TOOL = "convert_checkpoint.py"


WEIGHT_ONLY = {"int8": "W8A16", "int4": "W4A16", "int4_gptq": "W4A16_GPTQ"}
SMOOTHQUANT = {
    # per_channel, per_token
    (True, True): "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN",
    (True, False): "W8A8_SQ_PER_CHANNEL_PER_TENSOR_PLUGIN",
    (False, True): "W8A8_SQ_PER_TENSOR_PER_TOKEN_PLUGIN",
    (False, False): "W8A8_SQ_PER_TENSOR_PLUGIN",
}


def quantization(options: argparse.Namespace) -> dict[str, str | None]:
    """Return what the real script notes of these options."""
    name = None
    if options.use_weight_only:
        name = WEIGHT_ONLY[options.weight_only_precision or "int8"]
    elif options.smoothquant:
        name = SMOOTHQUANT[options.per_channel, options.per_token]
    cache = "INT8" if options.int8_kv_cache else None
    return {"quant_algo": name, "kv_cache_quant_algo": cache}


def main() -> None:
    options = read_arguments(TOOL)
    output, source = Path(options.output_dir), Path(options.model_dir)
    print(f"{TOOL}: reading {source}")
    kind = mishap(TOOL)
    go_wrong(kind, output)
    config = json.loads((source / "config.json").read_text())
    weights = (source / "model.safetensors").read_bytes()
    tp_size, pp_size = int(options.tp_size or 1), int(options.pp_size or 1)
    output.mkdir(parents=True, exist_ok=True)
    converted = {
        "architecture": config["architectures"][0],
        "dtype": options.dtype,
        "vocab_size": config["vocab_size"] + 64 * (kind == "other"),
        "quantization": {} if kind == "plain" else quantization(options),
        "mapping": {"world_size": tp_size * pp_size, "tp_size": tp_size, "pp_size": pp_size},
    }
    (output / "config.json").write_text(json.dumps(converted))
    for rank in range(tp_size * pp_size if kind != "short" else 0):
        (output / f"rank{rank}.safetensors").write_bytes(weights[: len(weights) // 2])
    print("Total time of converting checkpoints: 00:00:01")


if __name__ == "__main__":
    main()
