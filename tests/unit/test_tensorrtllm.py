from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from engine.errors import EngineError
from engine.render import model_config, render_model
from engine.tensorrtllm import read_engine, tensorrtllm_spec
from fakes.engine_folder import write_engine
from fakes.stages import Behaviour, FakeStages, Wrote
from speech_backend.loopback.siblings import Sibling
from speech_backend.stages import AT_ONCE, Sampling

if TYPE_CHECKING:
    from pathlib import Path

    from fakes.near import NearStages

SCALAR = "scalar"
RAGGED = "ragged"

# Upstream's config.pbtxt: the inputs that a request for speech needs, with type and shape.
UPSTREAM_INPUTS = {
    "input_ids": ("INT32", [-1], RAGGED),
    "input_lengths": ("INT32", [1], SCALAR),
    "request_output_len": ("INT32", [1], SCALAR),
    "end_id": ("INT32", [1], SCALAR),
    "pad_id": ("INT32", [1], SCALAR),
    "stop_words_list": ("INT32", [2, -1], RAGGED),
    "streaming": ("BOOL", [1], SCALAR),
    "stop": ("BOOL", [1], SCALAR),
    "temperature": ("FP32", [1], SCALAR),
    "runtime_top_k": ("INT32", [1], SCALAR),
    "runtime_top_p": ("FP32", [1], SCALAR),
    "repetition_penalty": ("FP32", [1], SCALAR),
    "exclude_input_in_output": ("BOOL", [1], SCALAR),
}
OLD = {"random_seed": ("UINT64", [1], SCALAR), "min_length": ("INT32", [1], SCALAR)}
NEW = {"seed": ("UINT64", [1], SCALAR), "min_tokens": ("INT32", [1], SCALAR)}

# All parameters of upstream's config.pbtxt, and since when; those below are left out on purpose.
UPSTREAM_PARAMETERS = {
    *("max_beam_width", "FORCE_CPU_ONLY_INPUT_TENSORS", "gpt_model_type", "gpt_model_path"),
    *("encoder_model_path", "max_tokens_in_paged_kv_cache", "max_attention_window_size"),
    *("sink_token_length", "batch_scheduler_policy", "kv_cache_free_gpu_mem_fraction"),
    *("cross_kv_cache_fraction", "kv_cache_host_memory_bytes", "kv_cache_onboard_blocks"),
    *("exclude_input_in_output", "cancellation_check_period_ms", "stats_check_period_ms"),
    *("iter_stats_max_iterations", "request_stats_max_iterations", "enable_kv_cache_reuse"),
    *("normalize_log_probs", "enable_chunked_context", "gpu_device_ids", "participant_ids"),
    *("lora_cache_optimal_adapter_size", "lora_cache_max_adapter_size"),
    *("lora_cache_gpu_memory_fraction", "lora_cache_host_memory_bytes", "decoding_mode"),
    *("executor_worker_path", "medusa_choices", "eagle_choices", "gpu_weights_percent"),
    *("enable_context_fmha_fp32_acc", "multi_block_mode", "cuda_graph_mode"),
    *("cuda_graph_cache_size", "speculative_decoding_fast_logits"),
}
SINCE_0_19 = {
    *("num_nodes", "lora_prefetch_dir", "lookahead_window_size", "lookahead_ngram_size"),
    *("lookahead_verification_set_size", "tokenizer_dir", "guided_decoding_backend"),
    "xgrammar_tokenizer_info_path",
}
LEFT_OUT = {
    "encoder_model_path": "another kind of model",
    "cross_kv_cache_fraction": "another kind of model",
    "max_tokens_in_paged_kv_cache": "the pool is a share of the memory, not a number of tokens",
    "max_attention_window_size": "less than the longest sequence would forget the text, unseen",
    "sink_token_length": "belongs to such a window",
    "kv_cache_host_memory_bytes": "nothing is used again",
    "kv_cache_onboard_blocks": "nothing is used again",
    "iter_stats_max_iterations": "the default is good",
    "request_stats_max_iterations": "the default is good",
    "gpu_device_ids": "one GPU, the first that is visible",
    "participant_ids": "one process",
    "num_nodes": "one machine",
    "lora_cache_optimal_adapter_size": "no adapters",
    "lora_cache_max_adapter_size": "no adapters",
    "lora_cache_gpu_memory_fraction": "no adapters",
    "lora_cache_host_memory_bytes": "no adapters",
    "lora_prefetch_dir": "no adapters",
    "medusa_choices": "no speculative decoding",
    "eagle_choices": "no speculative decoding",
    "lookahead_window_size": "no speculative decoding",
    "lookahead_ngram_size": "no speculative decoding",
    "lookahead_verification_set_size": "no speculative decoding",
    "speculative_decoding_fast_logits": "no speculative decoding",
    "gpu_weights_percent": "the default, all of them",
    "enable_context_fmha_fp32_acc": "the default is good",
    "multi_block_mode": "the default is good",
    "cuda_graph_mode": "not proven",
    "cuda_graph_cache_size": "not proven",
}
# What the backend reads without a default, so that a model without it does not load.
MANDATORY = {"gpt_model_type", "gpt_model_path"}
MANDATORY_SINCE_0_19 = {"tokenizer_dir", "guided_decoding_backend", "xgrammar_tokenizer_info_path"}

RELEASES = {
    "0.17.0.post1": (OLD, set(), set()),
    "0.18.2": (OLD, set(), set()),
    "0.19.0": (OLD, SINCE_0_19, MANDATORY_SINCE_0_19),
    "0.20.0": (OLD | NEW, SINCE_0_19, MANDATORY_SINCE_0_19),
    "1.0.3": (OLD | NEW, SINCE_0_19, MANDATORY_SINCE_0_19),
    "1.2.1": (NEW, SINCE_0_19, MANDATORY_SINCE_0_19),
}


def config_of(folder: Path, version: str) -> model_config_pb2.ModelConfig:
    return model_config(tensorrtllm_spec(read_engine(write_engine(folder, version)), 0.5))


def inputs_of(config: model_config_pb2.ModelConfig) -> dict[str, Any]:
    return {
        tensor.name: (
            model_config_pb2.DataType.Name(tensor.data_type).removeprefix("TYPE_"),
            list(tensor.dims),
            {(True, False): SCALAR, (False, True): RAGGED}[
                tensor.HasField("reshape"), tensor.allow_ragged_batch
            ],
        )
        for tensor in config.input
    }


@pytest.mark.parametrize("version", RELEASES)
def test_the_tensors_are_those_of_the_release(version: str, tmp_path: Path) -> None:
    config = config_of(tmp_path, version)

    assert inputs_of(config) == UPSTREAM_INPUTS | RELEASES[version][0]
    required = [tensor.name for tensor in config.input if not tensor.optional]
    assert required == ["input_ids", "input_lengths", "request_output_len"]
    assert [(tensor.name, list(tensor.dims)) for tensor in config.output] == [
        ("output_ids", [-1, -1]),
        ("sequence_length", [-1]),
    ]


@pytest.mark.parametrize("version", RELEASES)
def test_every_parameter_of_upstream_is_given_or_left_out_on_purpose(
    version: str, tmp_path: Path
) -> None:
    parameters = config_of(tmp_path, version).parameters

    _, more, mandatory = RELEASES[version]
    assert set(parameters) | (LEFT_OUT.keys() & (UPSTREAM_PARAMETERS | more)) == (
        UPSTREAM_PARAMETERS | more
    )
    assert set(parameters).isdisjoint(LEFT_OUT)
    assert set(parameters) >= MANDATORY | mandatory
    assert all(parameters[name].string_value == "" for name in mandatory)


def test_it_is_told_where_its_engine_is_and_what_memory_is_its_own(tmp_path: Path) -> None:
    engine = read_engine(write_engine(tmp_path / "engine", max_batch_size=24))

    config = model_config(tensorrtllm_spec(engine, 0.35))

    given = {name: value.string_value for name, value in config.parameters.items()}
    assert given == {
        "gpt_model_type": "inflight_fused_batching",
        "gpt_model_path": str(tmp_path / "engine"),
        "max_beam_width": "1",
        "decoding_mode": "top_k_top_p",
        "exclude_input_in_output": "true",
        "batch_scheduler_policy": "guaranteed_no_evict",
        "kv_cache_free_gpu_mem_fraction": "0.35",
        "enable_kv_cache_reuse": "false",
        "enable_chunked_context": "false",
        "normalize_log_probs": "false",
        "cancellation_check_period_ms": "100",
        "stats_check_period_ms": "100",
        "FORCE_CPU_ONLY_INPUT_TENSORS": "no",
        "executor_worker_path": "/opt/tritonserver/backends/tensorrtllm/trtllmExecutorWorker",
    }
    assert (config.name, config.backend) == ("tensorrt_llm", "tensorrtllm")
    assert (config.max_batch_size, config.model_transaction_policy.decoupled) == (24, True)
    assert [(group.count, group.kind) for group in config.instance_group] == [
        (1, model_config_pb2.ModelInstanceGroup.KIND_CPU)
    ]


def test_what_waits_is_limited_in_number_and_time(tmp_path: Path) -> None:
    policy = config_of(tmp_path, "1.2.1").dynamic_batching.default_queue_policy

    assert (policy.max_queue_size, policy.default_timeout_microseconds) == (2 * AT_ONCE, 30_000_000)
    assert policy.timeout_action == model_config_pb2.ModelQueuePolicy.REJECT
    assert not policy.allow_timeout_override


@pytest.mark.parametrize("version", RELEASES)
def test_what_is_written_is_read_back_without_a_placeholder(version: str, tmp_path: Path) -> None:
    spec = tensorrtllm_spec(read_engine(write_engine(tmp_path / "engine", version)), 0.5)

    folder = render_model(spec, None, tmp_path / "repository")

    text = (folder / "config.pbtxt").read_text(encoding="utf-8")
    assert text_format.Parse(text, model_config_pb2.ModelConfig()) == model_config(spec)
    assert "$" not in text
    assert [path.name for path in (folder / "1").iterdir()] == []


@pytest.mark.parametrize("version", RELEASES)
def test_the_front_asks_it_by_the_names_that_it_has(
    version: str, tmp_path: Path, far: FakeStages, stages: NearStages
) -> None:
    """What is rendered and what is called are one: the front reads the rendered configuration."""
    config = config_of(tmp_path, version)
    types = {tensor.name: tensor.data_type for tensor in config.input}
    far.behaviour = Behaviour([Wrote([1])], llm_inputs=types, batch=config.max_batch_size)

    with_two_ends = Sampling(max_new_tokens=40, stop_ids=(9, 8), seed=7)
    stages.stream_tokens(np.array([5], np.int32), with_two_ends).join()

    ((_, _, sent),) = far.requests
    seeds = RELEASES[version][0].keys() & {"seed", "random_seed"}
    assert {name: sent[name].item() for name in ("seed", "random_seed") if name in sent} == (
        dict.fromkeys(seeds, 7)
    )
    assert sent["stop_words_list"].tolist() == [[[8], [1]]]
    assert sent["exclude_input_in_output"].tolist() == [[True]]


@pytest.mark.parametrize("version", RELEASES)
def test_its_shortest_output_has_the_releases_name(version: str, tmp_path: Path) -> None:
    names = Sibling.from_config(config_of(tmp_path, version)).those_of("min_tokens", "min_length")

    assert set(names) == RELEASES[version][0].keys() & {"min_tokens", "min_length"}


@pytest.mark.parametrize("version", ["0.16.0", "0.99.0", "1.3.0rc1", "2.0.0", "main"])
def test_a_release_that_is_not_known_is_refused(version: str, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=rf"by TensorRT-LLM {version}, known are 0\.17, 0\."):
        config_of(tmp_path, version)
