from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from engine.__main__ import main
from engine.catalogue import find_specs
from engine.errors import EngineError
from engine.llm import llm_spec, vllm_spec
from engine.render import model_config
from engine.site import Site
from fakes.checkpoint import write_checkpoint


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "spark" / "LLM"
    folder.mkdir(parents=True)
    (folder / "config.json").touch()
    return folder.parent


def test_the_language_model_has_tensorrt_llms_shapes(checkpoint: Path) -> None:
    config = model_config(llm_spec(checkpoint))

    inputs = {tensor.name: tensor for tensor in config.input}
    assert (config.max_batch_size, config.model_transaction_policy.decoupled) == (1, True)
    assert [name for name, tensor in inputs.items() if not tensor.optional] == [
        "input_ids",
        "input_lengths",
        "request_output_len",
    ]
    assert inputs["stop"].data_type == model_config_pb2.TYPE_BOOL
    assert list(inputs["stop_words_list"].dims) == [2, -1]
    assert {tensor.name: list(tensor.dims) for tensor in config.output} == {
        "output_ids": [-1, -1],
        "sequence_length": [-1],
    }


def test_the_language_model_is_told_its_weights_device_and_dtype(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkpoint.parent)

    parameters = llm_spec(Path("spark"), "cuda", "bfloat16", 3, pruned_head=True).parameters

    names = ("model_dir", "engine", "device", "dtype", "threads", "pruned_head")
    given = {name: parameters[name] for name in names}
    assert given == {
        "engine": "transformers",
        "model_dir": str(checkpoint),
        "device": "cuda",
        "dtype": "bfloat16",
        "threads": "3",
        "pruned_head": "true",
    }
    assert llm_spec(Path("spark")).parameters["pruned_head"] == "false"


def test_a_pruned_head_is_rendered_for_this_model_alone(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "spark")
    site = Site(tmp_path / "spark", pruned_head=True)

    llm, *_ = find_specs("spark_tts", site)

    assert (llm.name, llm.parameters["pruned_head"]) == ("llm", "true")
    with pytest.raises(EngineError, match="--pruned-head is for --llm transformers"):
        find_specs("spark_tts", replace(site, llm="tensorrt_llm"))


def test_render_takes_the_option(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "spark")
    given = ["--model", "spark_tts", "--model-dir", str(tmp_path / "spark"), "--pruned-head"]

    assert main(["render", *given, str(tmp_path / "repository")]) == 0

    text = (tmp_path / "repository" / "llm" / "config.pbtxt").read_text(encoding="utf-8")
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    assert config.parameters["pruned_head"].string_value == "true"


def test_vllm_has_the_same_tensors_and_its_own_parameters(checkpoint: Path) -> None:
    spec, other = vllm_spec(checkpoint, 4096, 0.25), llm_spec(checkpoint)

    assert (spec.name, spec.inputs, spec.outputs) == (other.name, other.inputs, other.outputs)
    assert spec.max_batch_size == other.max_batch_size
    own = {name: value for name, value in spec.parameters.items() if name not in other.parameters}
    assert own == {
        "max_sequence_tokens": "4096",
        "memory_fraction": "0.25",
        "max_running": "128",
    }
    assert (spec.parameters["engine"], spec.parameters["dtype"]) == ("vllm", "bfloat16")


def test_a_folder_without_a_language_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        EngineError, match=r"no checkpoint of Spark-TTS: it has no LLM/config\.json"
    ):
        llm_spec(tmp_path)
