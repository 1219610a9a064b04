"""The commands that have no help text to be checked against, and what they need of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.build import build_command
from engine.convert import Scripts, convert_command, convert_options
from engine.errors import EngineError
from engine.gpu import find_gpus
from engine.spec import QUANTIZATIONS, EngineSpec

if TYPE_CHECKING:
    from pathlib import Path

SPEC = EngineSpec()


def test_fp8_is_made_by_the_script_that_can(tmp_path: Path) -> None:
    """Its help text is not among those checked here."""
    spec = EngineSpec(quantization="fp8", kv_cache="fp8", calibration="speech")
    script = Scripts(tmp_path).find(spec)

    command = convert_command(spec, tmp_path / "LLM", tmp_path / "out", script)

    assert script == tmp_path / "quantization" / "quantize.py"
    assert " ".join(command).endswith(
        "--dtype bfloat16 --tp_size 1 --pp_size 1 --qformat fp8 --kv_cache_dtype fp8 "
        "--calib_dataset speech"
    )
    built = build_command(spec, tmp_path, tmp_path)
    assert built[built.index("--gemm_plugin") + 1] == "fp8"


def test_a_pruned_head_needs_room_for_its_prompts_embeddings(tmp_path: Path) -> None:
    command = build_command(EngineSpec(pruned_head=True), tmp_path, tmp_path)

    assert command[-2:] == ["--max_prompt_embedding_table_size", str(16 * 1024)]


@pytest.mark.parametrize(
    ("version", "image", "place"),
    [
        ("0.17.0.post1", "25.02", "qwen"),
        ("0.18.2", "25.04", "qwen"),
        ("0.19.0", "25.05", "models/core/qwen"),
        ("1.2.1", "26.07", "models/core/qwen"),
    ],
)
def test_the_script_is_where_the_release_keeps_it(
    tmp_path: Path, version: str, image: str, place: str
) -> None:
    spec = EngineSpec(trtllm_version=version, image=image)

    assert Scripts(tmp_path).find(spec) == tmp_path / place / "convert_checkpoint.py"
    assert Scripts(tmp_path, tmp_path / "mine.py").find(spec) == tmp_path / "mine.py"


QUANTIZED = {
    "none": ({}, ""),
    "int8": ({}, "--use_weight_only --weight_only_precision int8"),
    "int4": ({}, "--use_weight_only --weight_only_precision int4"),
    "int4_gptq": ({}, "--use_weight_only --weight_only_precision int4_gptq --per_group"),
    "smoothquant": (
        {"calibration": "speech", "smoothquant": 0.7},
        "--smoothquant 0.7 --per_channel --per_token --calib_dataset speech",
    ),
    "fp8": ({"calibration": "speech"}, "--qformat fp8 --calib_dataset speech"),
}


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_a_quantization_is_these_options_and_no_others(quantization: str) -> None:
    more, expected = QUANTIZED[quantization]

    options = convert_options(EngineSpec(quantization=quantization, **more))

    plain = ["--dtype", "bfloat16", "--tp_size", "1", "--pp_size", "1"]
    assert options == [*plain, *expected.split()]


def test_an_int8_cache_is_one_option_more() -> None:
    spec = EngineSpec(quantization="int8", kv_cache="int8", calibration="speech")

    assert convert_options(spec)[6:] == [
        *("--use_weight_only", "--weight_only_precision", "int8", "--int8_kv_cache"),
        *("--calib_dataset", "speech"),
    ]


def test_the_builder_is_told_these_options_and_no_others(tmp_path: Path) -> None:
    spec = EngineSpec(max_batch=8, max_input=2048, max_sequence=4096, max_tokens=16_384)

    command = build_command(spec, tmp_path / "in", tmp_path / "out")

    assert command == [
        *("trtllm-build", "--checkpoint_dir", f"{tmp_path}/in", "--output_dir", f"{tmp_path}/out"),
        *("--output_timing_cache", f"{tmp_path}/out/model.cache"),
        *("--max_batch_size", "8", "--max_input_len", "2048"),
        *("--max_seq_len", "4096", "--max_num_tokens", "16384"),
        *("--gemm_plugin", "bfloat16", "--use_paged_context_fmha", "disable"),
    ]


def test_a_driver_that_hangs_or_is_too_old_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for text, words in (
        ("exec sleep 600", "nvidia-smi does not answer within 0.5 s; the driver hangs"),
        (
            "echo 'Tesla P4, [N/A], 450.1, GPU-0'",
            "says 'Tesla P4, [N/A], 450.1, GPU-0', without a compute capability",
        ),
        ("echo nonsense", "nvidia-smi says 'nonsense', without a compute capability"),
    ):
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)

        with pytest.raises(EngineError) as caught:
            find_gpus(0.5)
        assert words in str(caught.value)
