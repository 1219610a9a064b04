"""Stands in for trtllm-build: writes the configuration of a real engine, as it was told."""

from __future__ import annotations

import json
import os
from pathlib import Path

from behaviour import go_wrong, mishap, read_arguments

TOOL = "trtllm-build"
CONFIG = Path(__file__).parents[2] / "golden" / "engine_config_l4.json"
LIMITS = ("max_batch_size", "max_input_len", "max_seq_len", "max_num_tokens")


def main() -> None:
    options = read_arguments(TOOL)
    output, checkpoint = Path(options.output_dir), Path(options.checkpoint_dir)
    print(f"{TOOL}: reading {checkpoint}")
    kind = mishap(TOOL)
    go_wrong(kind, output)
    converted = json.loads((checkpoint / "config.json").read_text())
    config = json.loads(CONFIG.read_text())
    config["version"] = os.environ.get("STAND_IN_VERSION", "0.17.0.post1")
    noted = ("dtype", "mapping", "vocab_size")
    config["pretrained_config"] |= {name: converted[name] for name in noted}
    config["pretrained_config"]["quantization"] |= converted["quantization"]
    config["build_config"] |= {name: int(getattr(options, name)) for name in LIMITS}
    config["build_config"]["auto_parallel_config"]["cluster_key"] = os.environ["STAND_IN_GPU"]
    plugins = config["build_config"]["plugin_config"]
    plugins["gemm_plugin"] = options.gemm_plugin
    plugins["use_paged_context_fmha"] = options.use_paged_context_fmha == "enable"
    if kind == "other":
        config["build_config"]["max_num_tokens"] = 8192
    output.mkdir(parents=True, exist_ok=True)
    (output / "config.json").write_text(json.dumps(config))
    Path(options.output_timing_cache).write_bytes(b"times of kernels")
    print("this sees the GPUs", os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    for rank in range(converted["mapping"]["world_size"] if kind != "short" else 0):
        (output / f"rank{rank}.engine").write_bytes(b"engine" * 1000 * (kind != "empty"))
    print("Total time of building all engines: 00:00:02")


if __name__ == "__main__":
    main()
