"""Stands in for TensorRT-LLM's convert_checkpoint.py of Qwen."""

from __future__ import annotations

import json
from pathlib import Path

from behaviour import go_wrong, mishap, read_arguments

TOOL = "convert_checkpoint.py"


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
        "mapping": {"world_size": tp_size * pp_size, "tp_size": tp_size, "pp_size": pp_size},
    }
    (output / "config.json").write_text(json.dumps(converted))
    for rank in range(tp_size * pp_size if kind != "short" else 0):
        (output / f"rank{rank}.safetensors").write_bytes(weights[: len(weights) // 2])
    print("Total time of converting checkpoints: 00:00:01")


if __name__ == "__main__":
    main()
