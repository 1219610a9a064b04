from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from engine.__main__ import main
from engine.catalogue import find_specs
from engine.errors import EngineError
from engine.render import model_config, model_source
from engine.site import Site
from engine.spark import NEEDED_FILES
from speech_wire import CANCEL_PARAMETER

if TYPE_CHECKING:
    from pathlib import Path

STAGES = ["llm", "vocoder", "audio_tokenizer"]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Give a folder with the files that a checkpoint needs."""
    for name in NEEDED_FILES:
        path = tmp_path / "Spark-TTS-0.5B" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "Spark-TTS-0.5B"


def test_the_stages_come_before_the_front(checkpoint: Path) -> None:
    specs = find_specs("spark_tts", Site(checkpoint))

    assert [spec.name for spec in specs] == [*STAGES, "spark_tts"]
    assert all(model_source(spec.name).is_file() for spec in specs)


def test_the_front_knows_its_stages_its_server_and_its_limits(checkpoint: Path) -> None:
    site = Site(checkpoint, triton_address="127.0.0.1:9001", max_sequence_tokens=4096)

    *_, front = find_specs("spark_tts", site)

    assert front.parameters | {"checkpoint": "here"} == {
        "checkpoint": "here",
        "model_dir": str(checkpoint),
        "triton_address": "127.0.0.1:9001",
        "llm": "llm",
        "vocoder": "vocoder",
        "audio_tokenizer": "audio_tokenizer",
        "max_sequence_tokens": "4096",
        "max_text_characters": "240",
        "sample_rate_hz": "16000",
        CANCEL_PARAMETER: "true",
    }
    assert "voice" not in {spec.name for spec in front.inputs}
    assert front.decoupled


def test_other_weights_have_another_name(checkpoint: Path) -> None:
    """The gateway keeps voices as tokens, which are those of one codec."""

    def names() -> set[str | None]:
        specs = find_specs("spark_tts", Site(checkpoint))
        return {spec.parameters.get("checkpoint") for spec in specs if spec.name != "llm"}

    before = names()
    (checkpoint / "BiCodec" / "model.safetensors").write_bytes(b"other weights")

    assert len(before) == len(names()) == 1
    assert before != names()


def test_another_language_model_is_called_and_not_rendered(checkpoint: Path) -> None:
    specs = find_specs("spark_tts", Site(checkpoint, llm="tensorrt_llm"))

    assert [spec.name for spec in specs] == [*STAGES[1:], "spark_tts"]
    assert specs[-1].parameters["llm"] == "tensorrt_llm"


def test_stages_are_told_what_to_compute_with(checkpoint: Path) -> None:
    site = Site(checkpoint, device="cuda", dtype="float16", threads=3)

    for spec in find_specs("spark_tts", site)[:3]:
        given = {name: spec.parameters[name] for name in ("device", "dtype", "threads")}
        assert given == {"device": "cuda", "dtype": "float16", "threads": "3"}


def test_half_of_the_cores_are_computed_with() -> None:
    assert Site().threads == max(1, len(os.sched_getaffinity(0)) // 2)


def test_windows_share_batches_and_recordings_do_not(checkpoint: Path) -> None:
    _, vocoder, tokenizer, front = (
        model_config(spec) for spec in find_specs("spark_tts", Site(checkpoint))
    )

    assert vocoder.max_batch_size == 16
    assert vocoder.HasField("dynamic_batching")
    assert not vocoder.model_transaction_policy.decoupled
    for config in (tokenizer, front):
        assert config.max_batch_size == 0
        assert not config.HasField("dynamic_batching")


def test_without_a_checkpoint_it_says_what_is_missing(checkpoint: Path) -> None:
    site = Site(checkpoint)
    (checkpoint / "LLM" / "tokenizer.json").unlink()
    (checkpoint / "BiCodec" / "config.yaml").unlink()

    with pytest.raises(EngineError, match=r"it lacks LLM/tokenizer\.json, BiCodec/config\.yaml"):
        find_specs("spark_tts", site)
    with pytest.raises(EngineError, match="'spark_tts' needs a checkpoint: --model-dir"):
        find_specs("spark_tts", replace(site, model_dir=None))


def test_render_brings_the_stages_along(checkpoint: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    options = ["--model", "spark_tts", "--model-dir", str(checkpoint)]

    code = main(["render", *options, "--triton-address", "[::1]:7", str(repository)])

    assert code == 0
    assert {path.name for path in repository.iterdir()} == {*STAGES, "spark_tts"}
    text = (repository / "spark_tts" / "config.pbtxt").read_text(encoding="utf-8")
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    assert config.parameters["triton_address"].string_value == "[::1]:7"
    assert config.parameters["model_dir"].string_value == str(checkpoint)
