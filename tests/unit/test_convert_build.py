"""From weights to an engine, with stand-ins for TensorRT-LLM's tools that check their arguments."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from engine.convert import Scripts, convert
from engine.errors import EngineError
from engine.spec import EngineSpec
from engine.tool import ToolError
from fakes.checkpoint import write_llm
from fakes.workshop import SPEC, Workshop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    return Workshop(tmp_path, monkeypatch)


def test_weights_become_an_engine_with_a_manifest_each(workshop: Workshop) -> None:
    workshop.convert()
    workshop.build()

    checkpoint = json.loads((workshop.checkpoint / "manifest.json").read_text())
    assert checkpoint["key"] == "c"
    assert checkpoint["versions"] == {"tensorrt_llm": "0.17.0.post1"}
    assert set(checkpoint["files"]) == {"config.json", "rank0.safetensors"}
    engine = json.loads((workshop.engine / "manifest.json").read_text())
    assert engine["versions"] == {"tensorrt_llm": "0.17.0.post1", "driver": "570.86.10"}
    assert engine["gpu"] == "NVIDIA L4"
    assert engine["files"]["rank0.engine"]["bytes"] == 6000


def test_what_is_there_is_not_made_again(workshop: Workshop) -> None:
    workshop.convert()
    workshop.build()
    # Now each tool, the GPU and TensorRT-LLM would fail.
    workshop.use("trtllm-build=fail", gpus="", smi_exit_code=9)
    before = (workshop.engine / "rank0.engine").stat()

    workshop.convert()
    workshop.build()

    assert (workshop.engine / "rank0.engine").stat() == before


@pytest.mark.parametrize(
    "spec",
    [
        EngineSpec(quantization="int8"),
        EngineSpec(quantization="int4", extra_convert=(("disable_weight_only_quant_plugin", ""),)),
        EngineSpec(quantization="smoothquant", calibration="speech", kv_cache="int8"),
        EngineSpec(kv_cache="int8", calibration="speech"),
        EngineSpec(tensor_parallel=2, pipeline_parallel=2, gpu="H100"),
        EngineSpec(dtype="float32", gpu="T4"),
        EngineSpec(
            extra_convert=(("workers", "2"), ("load_model_on_cpu", "")),
            extra_build=(
                ("fast_build", ""),
                ("lora_target_modules", "attn_q,attn_k"),
                ("lora_plugin", "auto"),
            ),
        ),
    ],
    ids=["int8", "int4", "smoothquant", "int8 cache", "four GPUs", "float32", "extra"],
)
def test_the_tools_understand_what_they_are_told(workshop: Workshop, spec: EngineSpec) -> None:
    capability = {"H100": "9.0", "T4": "7.5"}.get(spec.gpu, "8.9")
    gpus = f"NVIDIA {spec.gpu} 80GB HBM3, {capability}, 570.86.10\n" * spec.world_size
    workshop.use(gpus=gpus, gpu_name={"H100": "H100-SXM", "T4": "Tesla-T4"}.get(spec.gpu, spec.gpu))

    workshop.convert(spec)
    workshop.build(spec)

    ranks = sorted(path.name for path in workshop.engine.glob("*.engine"))
    assert ranks == [f"rank{rank}.engine" for rank in range(spec.world_size)]


@pytest.mark.parametrize("tool", ["convert_checkpoint.py", "trtllm-build"])
def test_a_tool_that_fails_is_quoted_and_leaves_nothing_to_use(
    workshop: Workshop, tool: str, capfd: pytest.CaptureFixture[str]
) -> None:
    workshop.use(f"{tool}=fail")

    with pytest.raises(ToolError) as caught:
        workshop.convert_and_build()

    assert caught.value.exit_code == 7
    assert "ended with 7. Its last lines:\n" in str(caught.value)
    assert "  [E] no kernel for this layer\n" in str(caught.value)
    assert "--output_dir" in str(caught.value)
    assert "no kernel for this layer" in capfd.readouterr().out
    assert not workshop.engine.exists()


SPOILT: dict[str, tuple[dict[str, object], Callable[[Workshop], object], str]] = {
    "no driver": ({"has_driver": False}, lambda _: None, "no GPU: nvidia-smi is not on PATH"),
    "no GPU": ({"gpus": ""}, lambda _: None, "no GPU: nvidia-smi says: it lists none"),
    "driver fails": (
        {"gpus": "Failed to initialize NVML\n", "smi_exit_code": 9},
        lambda _: None,
        "no GPU: nvidia-smi says: Failed to initialize NVML; check the driver",
    ),
    "another GPU": (
        {"gpus": "NVIDIA A10G, 8.6, 570.1\n"},
        lambda _: None,
        "for 1 L4 (compute capability 8.9), here there is: NVIDIA A10G (compute capability 8.6)",
    ),
    "a longer name": ({"gpus": "NVIDIA L40S, 8.9, 570.1\n"}, lambda _: None, "is: NVIDIA L40S"),
    "another version": (
        {"version": "0.20.0"},
        lambda _: None,
        "here is TensorRT-LLM 0.20.0, the engine is to be of 0.17.0.post1; run this in nvcr.io/",
    ),
    "no TensorRT-LLM": (
        {"version": None},
        lambda _: None,
        "TensorRT-LLM is not installed for python3 (importlib.metadata.PackageNotFoundError: ",
    ),
    "half a checkpoint": (
        {},
        lambda shop: (shop.checkpoint / "rank0.safetensors").write_bytes(b"half"),
        "is not what was made: rank0.safetensors has 4 bytes, not 1500000; remove it",
    ),
    "no manifest": (
        {},
        lambda shop: (shop.checkpoint / "manifest.json").unlink(),
        "has no manifest.json, so it was not finished or not made here",
    ),
    "another engine there": (
        {},
        lambda shop: (shop.engine.mkdir(parents=True), (shop.engine / "x").touch()),
        "engine/e has no manifest.json",
    ),
}


@pytest.mark.parametrize("case", SPOILT)
def test_what_is_wrong_is_said_before_the_tool_runs(
    workshop: Workshop, case: str, capfd: pytest.CaptureFixture[str]
) -> None:
    machine, spoil, words = SPOILT[case]
    workshop.convert()
    spoil(workshop)
    for package in (workshop.folder / "machine" / "site").iterdir():
        (package / "METADATA").unlink()
        package.rmdir()
    (workshop.folder / "machine" / "bin" / "nvidia-smi").unlink()
    workshop.use("trtllm-build=fail", **machine)
    capfd.readouterr()

    with pytest.raises(EngineError) as caught:
        workshop.build()

    assert words in str(caught.value)
    assert capfd.readouterr().out == ""


def test_where_gpus_differ_the_tool_sees_those_of_the_spec_alone(
    workshop: Workshop, capfd: pytest.CaptureFixture[str]
) -> None:
    workshop.use(gpus="Tesla T4, 7.5, 570.1\nNVIDIA L4, 8.9, 570.1\nNVIDIA L4, 8.9, 570.1\n")
    workshop.convert_and_build()
    assert "this sees the GPUs GPU-1,GPU-2\n" in capfd.readouterr().out


def test_where_all_gpus_are_the_specs_the_tool_sees_them_all(
    workshop: Workshop, capfd: pytest.CaptureFixture[str]
) -> None:
    workshop.use(gpus="NVIDIA L4, 8.9, 570.1\nNVIDIA L4, 8.9, 570.1\n")
    workshop.convert_and_build()
    assert "this sees the GPUs all\n" in capfd.readouterr().out


def test_gptq_weights_are_converted_as_such(workshop: Workshop) -> None:
    config = json.loads((workshop.llm / "config.json").read_text())
    gptq = {**config, "quantization_config": {"quant_method": "gptq"}}
    (workshop.llm / "config.json").write_text(json.dumps(gptq))

    workshop.convert(EngineSpec(quantization="int4_gptq", extra_convert=(("group_size", "64"),)))

    options = json.loads((workshop.checkpoint / "manifest.json").read_text())["made_of"]["options"]
    assert options[-6:] == [
        *("--use_weight_only", "--weight_only_precision", "int4_gptq", "--per_group"),
        *("--group_size", "64"),
    ]


def test_weights_of_a_config_that_names_no_quantization_are_plain(workshop: Workshop) -> None:
    config = json.loads((workshop.llm / "config.json").read_text())
    (workshop.llm / "config.json").write_text(json.dumps({**config, "quantization_config": None}))

    workshop.convert()

    assert workshop.checkpoint.is_dir()


def test_a_quantization_in_another_shape_is_quoted(workshop: Workshop) -> None:
    config = json.loads((workshop.llm / "config.json").read_text())
    (workshop.llm / "config.json").write_text(json.dumps({**config, "quantization_config": "awq"}))

    with pytest.raises(EngineError, match="holds awq weights, quantization none starts from plain"):
        workshop.convert()


def test_a_script_that_is_not_there_is_named(workshop: Workshop) -> None:
    with pytest.raises(EngineError, match=r"none/qwen/convert_checkpoint\.py is not there"):
        convert(SPEC, workshop.llm, workshop.checkpoint, Scripts(workshop.folder / "none"))


def test_weights_in_another_precision_are_refused(workshop: Workshop) -> None:
    with pytest.raises(EngineError, match="holds plain weights, quantization int4_gptq starts fr"):
        workshop.convert(EngineSpec(quantization="int4_gptq"))


def test_a_checkpoint_without_weights_is_known_before_the_tool_starts(workshop: Workshop) -> None:
    (workshop.llm / "model.safetensors").unlink()

    with pytest.raises(EngineError, match=r"LLM has no weights \(\*\.safetensors or"):
        workshop.convert()


@pytest.mark.parametrize("text", ['{"model": null}', '{"added_tokens": [{"id": 1}]}'])
def test_a_tokenizer_of_another_format_is_named(workshop: Workshop, text: str) -> None:
    (workshop.llm / "tokenizer.json").write_text(text, encoding="utf-8")

    with pytest.raises(EngineError, match=r"LLM/tokenizer\.json is no tokenizer of the Hub's for"):
        workshop.convert()


def test_weights_of_another_model_are_refused(workshop: Workshop) -> None:
    write_llm(workshop.llm, lambda ids: ids.pop("<|im_end|>"))

    with pytest.raises(EngineError, match=r"not Spark-TTS's language model: its tokenizer lacks"):
        workshop.convert()
