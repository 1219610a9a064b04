"""The options of TensorRT-LLM's tools: which a field sets, which may be given, which may not.

They are those of 0.17.0.post1. Another release may have renamed or dropped some; the tool then
says so itself, before it has done anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from engine.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SWITCH = "no value"
INTEGER = "a whole number"
TEXT = "a text"
ABLE = ("enable", "disable")
PLUGIN = ("auto", "float16", "float32", "bfloat16", "int32", "disable")
FP8 = ("fp8", "disable")
LORA_MODULES = (
    "attn_qkv", "attn_q", "attn_k", "attn_v", "attn_dense", "mlp_h_to_4h", "mlp_4h_to_h",
    "mlp_gate", "cross_attn_qkv", "cross_attn_q", "cross_attn_k", "cross_attn_v",
    "cross_attn_dense", "moe_h_to_4h", "moe_4h_to_h", "moe_gate", "moe_router", "mlp_router",
)  # fmt: skip
MANY = {"lora_dir", "lora_target_modules"}
"""Options that take several values, given with commas between them."""

BESIDE = {
    "embedding_sharding_dim": "use_parallel_embedding",
    "lora_dir": "lora_plugin",
    "lora_ckpt_source": "lora_plugin",
    "lora_target_modules": "lora_plugin",
    "max_lora_rank": "lora_plugin",
}
"""Options that count only beside another one."""

STEP = "the step's own folders"
SPEC = "the fields of the spec, and the folder's name, would no longer say what was built"
EXPERTS = "the model has no experts"
UNLIKE = "the model has no such layers"
IN_FLIGHT = "Triton's in-flight batching needs the default"
REUSE = "always disabled: prompts share one token before the text, so nothing could be used again"
DRAFTS = "nothing here serves drafts, and they change how long a sequence may be"
PARALLEL = "`tensor_parallel` and `pipeline_parallel` say how the model is split"


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool's options by name: field that sets it, kind of an extra one, reason against it.

    An option that has two names is there twice.
    """

    typed: Mapping[str, str]
    extra: Mapping[str, str | tuple[str, ...]]
    left_out: Mapping[str, str]


CONVERT = Tool(
    typed={
        "model_dir": STEP,
        "output_dir": STEP,
        "dtype": "dtype",
        "tp_size": "tensor_parallel",
        "pp_size": "pipeline_parallel",
        "use_weight_only": "quantization",
        "weight_only_precision": "quantization",
        "per_group": "quantization",
        "smoothquant": "smoothquant",
        "per_channel": "quantization",
        "per_token": "quantization",
        "int8_kv_cache": "kv_cache",
        "calib_dataset": "calibration",
    },
    extra={
        "disable_weight_only_quant_plugin": SWITCH,
        "group_size": INTEGER,
        "load_model_on_cpu": SWITCH,
        "use_parallel_embedding": SWITCH,
        "embedding_sharding_dim": ("0", "1"),
        "workers": INTEGER,
    },
    left_out={
        "help": "it makes no checkpoint",
        "moe_tp_size": EXPERTS,
        "moe_ep_size": EXPERTS,
    },
)

BUILD = Tool(
    typed={
        "checkpoint_dir": STEP,
        "output_dir": STEP,
        "output_timing_cache": STEP,
        "max_batch_size": "max_batch",
        "max_input_len": "max_input",
        "max_seq_len": "max_sequence",
        "max_decoder_seq_len": "max_sequence",
        "max_num_tokens": "max_tokens",
        "gemm_plugin": "dtype",
        "max_prompt_embedding_table_size": "pruned_head",
        "max_multimodal_len": "pruned_head",
    },
    extra={
        "opt_num_tokens": INTEGER,
        "input_timing_cache": TEXT,
        "profiling_verbosity": ("layer_names_only", "detailed", "none"),
        "weight_sparsity": SWITCH,
        "weight_streaming": SWITCH,
        "fast_build": SWITCH,
        "workers": INTEGER,
        "log_level": ("internal_error", "error", "warning", "info", "verbose", "debug"),
        "enable_debug_output": SWITCH,
        "visualize_network": TEXT,
        "monitor_memory": SWITCH,
        "logits_dtype": ("float16", "float32"),
        "gather_context_logits": SWITCH,
        "gather_generation_logits": SWITCH,
        "gather_all_token_logits": SWITCH,
        "lora_dir": TEXT,
        "lora_ckpt_source": ("hf", "nemo"),
        "lora_target_modules": LORA_MODULES,
        "max_lora_rank": INTEGER,
        "lora_plugin": PLUGIN,
        "gpt_attention_plugin": PLUGIN,
        "gemm_swiglu_plugin": FP8,
        "fp8_rowwise_gemm_plugin": PLUGIN,
        "nccl_plugin": PLUGIN,
        "low_latency_gemm_plugin": FP8,
        "low_latency_gemm_swiglu_plugin": FP8,
        "context_fmha": ABLE,
        "reduce_fusion": ABLE,
        "user_buffer": ABLE,
        "tokens_per_block": INTEGER,
        "use_fp8_context_fmha": ABLE,
        "multiple_profiles": ABLE,
        "streamingllm": ABLE,
        "use_fused_mlp": ABLE,
        "pp_reduce_scatter": ABLE,
    },
    left_out={
        "help": "it makes no engine",
        "dry_run": "it makes no engine; `--dry-run` of this command shows what would run",
        "strip_plan": "the engine would have no weights, and Triton does not bring them back",
        "model_config": SPEC,
        "build_config": SPEC,
        "model_cls_file": SPEC,
        "model_cls_name": SPEC,
        "max_beam_width": "a stream cannot take back what it has sent, so there is one beam",
        "max_encoder_input_len": "the model has no encoder",
        "use_paged_context_fmha": REUSE,
        "speculative_decoding_mode": DRAFTS,
        "max_draft_len": DRAFTS,
        "kv_cache_type": IN_FLIGHT,
        "paged_kv_cache": IN_FLIGHT,
        "remove_input_padding": IN_FLIGHT,
        "auto_parallel": PARALLEL,
        "gpus_per_node": PARALLEL,
        "cluster_key": PARALLEL,
        "bert_attention_plugin": UNLIKE,
        "bert_context_fmha_fp32_acc": UNLIKE,
        "moe_plugin": EXPERTS,
        "mamba_conv1d_plugin": UNLIKE,
        "paged_state": UNLIKE,
    },
)

TOOLS = {"convert_checkpoint.py": CONVERT, "trtllm-build": BUILD}


def parse_extra(text: str) -> tuple[str, str]:
    """Return name and value of `NAME=VALUE`, or of `NAME` alone; dashes are the tool's or ours."""
    name, _, value = text.partition("=")
    return name.strip().lstrip("-").replace("-", "_"), value.strip()


def check_extra(tool: str, given: Iterable[tuple[str, str]]) -> None:
    """Raise EngineError for an extra option that the tool lacks or that may not be given."""
    options, seen, given = TOOLS[tool], set[str](), tuple(given)
    on = {name for name, value in given if value != "disable"}
    for name, value in given:
        if name in seen:
            raise EngineError(f"{tool}'s option {name} is given twice")
        seen.add(name)
        if field := options.typed.get(name):
            raise EngineError(
                f"{tool}'s option {name} is not an extra one: it follows from {field}"
            )
        if reason := options.left_out.get(name):
            raise EngineError(f"{tool}'s option {name} is not used: {reason}")
        if name not in options.extra:
            raise EngineError(f"{tool} has no option '{name}'{_nearest(name, options)}")
        values = value.split(",") if name in MANY else [value]
        for one in values:
            _check_value(f"{tool}'s option {name}", one, options.extra[name])
        other = BESIDE.get(name)
        if other is not None and other not in on:
            raise EngineError(f"{tool}'s option {name} has no effect without {other}; give both")


def _nearest(name: str, options: Tool) -> str:
    known = [*options.extra, *options.typed, *options.left_out]
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(options.extra)}"


def _check_value(option: str, value: str, kind: str | tuple[str, ...]) -> None:
    if isinstance(kind, tuple):
        if value not in kind:
            raise EngineError(f"{option} is '{value}'; allowed are: {', '.join(kind)}")
    elif (kind == SWITCH) is bool(value) or (kind == INTEGER and not value.isdecimal()):
        raise EngineError(f"{option} is '{value}'; it takes {kind}")


def extra_arguments(given: Iterable[tuple[str, str]]) -> list[str]:
    """Return checked extra options as the tool's arguments."""
    arguments: list[str] = []
    for name, value in given:
        arguments += [f"--{name}"] if not value else [f"--{name}", *_values(name, value)]
    return arguments


def _values(name: str, value: str) -> list[str]:
    return value.split(",") if name in MANY else [value]
