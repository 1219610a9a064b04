"""What the tools are told: word for word, and against a real engine's, built on an L4."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.build import build_options, expected_config
from engine.spec import EngineSpec
from fakes.help_text import HELP, read_defaults, read_options

GOLDEN = Path(__file__).parents[1] / "golden"
CONFIG = json.loads((GOLDEN / "engine_config_l4.json").read_text(encoding="utf-8"))
BUILT = CONFIG["build_config"]
PLUGINS = BUILT["plugin_config"]

# Fields of the configuration that have an option of another name, or none.
RENAMED = {
    "cluster_key": "auto_parallel_config.cluster_key",
    "gpus_per_node": "auto_parallel_config.gpus_per_node",
    "auto_parallel": "auto_parallel_config.world_size",
    "lora_dir": "lora_config.lora_dir",
    "lora_ckpt_source": "lora_config.lora_ckpt_source",
    "lora_target_modules": "lora_config.lora_target_modules",
    "max_lora_rank": "lora_config.max_lora_rank",
    "strip_plan": "use_strip_plan",
}
# What the tool works out from the checkpoint, the GPU or other options.
WORKED_OUT = {
    "cluster_key": "L4",  # the GPU that it finds
    "opt_num_tokens": 16,  # max_batch_size times max_beam_width
    "nccl_plugin": None,  # one GPU
    "speculative_decoding_mode": 1,  # none, as a number
    "kv_cache_type": "PAGED",
    "paged_kv_cache": True,
    "paged_state": False,  # the model has no state
    "lora_dir": [],
    "lora_target_modules": [],
}
# Not in the configuration: where files are, and how the tool goes about it.
NOT_NOTED = {
    "checkpoint_dir", "model_config", "build_config", "model_cls_file", "model_cls_name",
    "output_dir", "fast_build", "workers", "log_level", "visualize_network", "dry_run",
    "logits_dtype", "gather_all_token_logits",
}  # fmt: skip
WORDS = {"None": None, "True": True, "False": False, "enable": True, "disable": None}


def told(spec: EngineSpec) -> dict[str, Any]:
    """Return each option's value: what we say, else what the help text says is the default."""
    values: dict[str, Any] = dict.fromkeys(read_options(HELP["trtllm-build"]))
    values |= read_defaults(HELP["trtllm-build"])
    options = build_options(spec)
    for name, value in zip(options[::2], options[1::2], strict=True):
        values[name.removeprefix("--")] = value
    return {name: read(value) for name, value in values.items()}


def read(value: Any) -> Any:
    if value in WORDS:
        return WORDS[value]
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def noted(name: str) -> Any:
    if name in PLUGINS:
        return PLUGINS[name]
    found: Any = BUILT
    for part in RENAMED.get(name, name).split("."):
        found = found[part]
    return found


def test_a_dry_run_prints_the_image_each_command_and_each_folder_for_an_l4(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-m", "engine", "all", "--work", str(tmp_path), "--dry-run"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (0, "")
    expected = (GOLDEN / "all_dry_run_l4.txt").read_text(encoding="utf-8")
    assert done.stdout.replace(str(tmp_path), "/srv/nowhere") == expected


@pytest.mark.parametrize("name", sorted(set(read_options(HELP["trtllm-build"])) - NOT_NOTED))
def test_an_options_value_is_that_of_the_real_engine(name: str) -> None:
    expected = WORKED_OUT.get(name, told(EngineSpec())[name])

    # A switch that is off is null in one place and false in another.
    assert noted(name) == expected or (noted(name) in (False, None) and expected in (False, None))


@pytest.mark.parametrize("path", expected_config(EngineSpec()))
def test_what_an_engine_is_checked_for_is_what_the_real_one_says(path: str) -> None:
    found: Any = CONFIG
    for part in path.split("."):
        found = found[part]

    assert found == expected_config(EngineSpec())[path]


def test_every_field_of_the_real_configuration_has_an_option_or_a_reason() -> None:
    names = {*read_options(HELP["trtllm-build"])}
    fields = {*BUILT, *PLUGINS} - names - {"plugin_config", "auto_parallel_config", "lora_config"}

    assert fields == {
        # Follow from other options: of the batch, of the dtype, of the engine.
        "opt_batch_size", "dtype", "use_strip_plan", "explicitly_disable_gemm_plugin",
        # Of the checkpoint's quantization.
        "qserve_gemm_plugin", "weight_only_groupwise_quant_matmul_plugin",
        "weight_only_quant_matmul_plugin", "smooth_quant_plugins", "smooth_quant_gemm_plugin",
        "layernorm_quantization_plugin", "rmsnorm_quantization_plugin",
        "quantize_per_token_plugin", "quantize_tensor_plugin",
        # No option of this release sets them.
        "identity_plugin", "manage_weights", "strongly_typed", "force_num_profiles", "use_refit",
        "use_mrope",
    }  # fmt: skip
