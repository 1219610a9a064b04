from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from engine.__main__ import main
from engine.catalogue import find_specs
from engine.errors import EngineError
from engine.render import model_config, model_source
from engine.site import Site
from engine.spark import Room
from fakes.checkpoint import write_checkpoint, write_weights
from fakes.engine_folder import write_engine
from fakes.spark import TOKENS
from speech_backend.prompts import Prompter, check_room
from speech_backend.stages import AT_ONCE
from speech_wire import CANCEL_PARAMETER

if TYPE_CHECKING:
    from pathlib import Path

STAGES = ["llm", "vocoder", "audio_tokenizer"]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Give a folder with the files that a checkpoint needs."""
    folder = tmp_path / "Spark-TTS-0.5B"
    write_checkpoint(folder)
    config = '{"vocab_size": 166000, "model_type": "qwen2"}'
    (folder / "LLM" / "config.json").write_text(config, encoding="utf-8")
    return folder


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
        "look_ahead": "67",
        "first_chunk": "25",
        "max_sequence_tokens": "4096",
        "max_text_characters": "31",
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
    write_weights(checkpoint / "BiCodec" / "model.safetensors", seed=1)

    assert len(before) == len(names()) == 1
    assert before != names()


def test_another_language_model_is_called_and_not_rendered(checkpoint: Path) -> None:
    specs = find_specs("spark_tts", Site(checkpoint, llm="tensorrt_llm"))

    assert [spec.name for spec in specs] == [*STAGES[1:], "spark_tts"]
    assert specs[-1].parameters["llm"] == "tensorrt_llm"


def test_the_language_model_on_vllm_is_rendered_for_a_gpu(checkpoint: Path) -> None:
    site = Site(checkpoint, llm="vllm", device="cuda", max_sequence_tokens=4096)

    llm, *_, front = find_specs("spark_tts", site)

    assert (llm.name, llm.parameters["engine"]) == ("llm", "vllm")
    assert llm.parameters["max_sequence_tokens"] == front.parameters["max_sequence_tokens"]
    assert front.parameters["llm"] == "llm"
    with pytest.raises(EngineError, match="--llm vllm needs a CUDA GPU: --device cuda"):
        find_specs("spark_tts", replace(site, device="cpu"))


def test_an_engine_is_rendered_and_its_longest_sequence_is_the_fronts(
    checkpoint: Path, tmp_path: Path
) -> None:
    engine = write_engine(tmp_path / "engine", max_seq_len=12_000)
    site = Site(checkpoint, llm="tensorrtllm", engine_dir=engine)

    llm, *_, front = find_specs("spark_tts", site)

    assert (llm.name, llm.backend) == ("tensorrt_llm", "tensorrtllm")
    assert front.parameters["llm"] == "tensorrt_llm"
    assert front.parameters["max_sequence_tokens"] == "12000"
    *_, front = find_specs("spark_tts", replace(site, max_sequence_tokens=6000))
    assert front.parameters["max_sequence_tokens"] == "6000"


def test_an_engine_that_is_missing_or_too_short_is_named(checkpoint: Path, tmp_path: Path) -> None:
    site = Site(checkpoint, llm="tensorrtllm")

    with pytest.raises(EngineError, match="--llm tensorrtllm needs --engine-dir"):
        find_specs("spark_tts", site)
    engine = write_engine(tmp_path / "engine", max_seq_len=4096)
    with pytest.raises(EngineError, match=r"is 5000, the engine in .* was built for 4096"):
        find_specs("spark_tts", replace(site, engine_dir=engine, max_sequence_tokens=5000))


@pytest.mark.parametrize("sequence_tokens", [3134, 4096, 8192, 16_384, 32_768])
@pytest.mark.parametrize("worst", ["9", "\U0001f600"])
def test_the_longest_text_has_room_with_the_longest_reference(
    sequence_tokens: int, worst: str
) -> None:
    """The engine knows no prompts, so its formula is held against those who make them."""
    # One id for each byte: no tokenizer of Spark-TTS's kind makes more.
    prompter = Prompter(TOKENS, lambda text: list(text.encode()))
    text = worst * Room(sequence_tokens, sequence_tokens).max_text_characters()
    voice, spoken = np.zeros(32, np.int32), np.zeros(30 * 50, np.int32)

    prompts = [
        prompter.continue_reference(text, "a" * 30 * 15, voice, spoken),
        prompter.create_voice(text, "female", None, None),
    ]

    for prompt in prompts:
        check_room(prompt, prompt.max_new_tokens, sequence_tokens)
    used = max(len(prompt.ids) + prompt.max_new_tokens for prompt in prompts)
    assert used > 0.94 * sequence_tokens


def test_an_engine_that_reads_short_prompts_takes_shorter_texts(
    checkpoint: Path, tmp_path: Path
) -> None:
    engine = write_engine(tmp_path / "engine", max_num_tokens=2400)
    site = Site(checkpoint, llm="tensorrtllm", engine_dir=engine)

    *_, front = find_specs("spark_tts", site)

    characters = int(front.parameters["max_text_characters"])
    prompter = Prompter(TOKENS, lambda text: list(text.encode()))
    voice, spoken = np.zeros(32, np.int32), np.zeros(30 * 50, np.int32)
    prompt = prompter.continue_reference("\U0001f600" * characters, "a" * 30 * 15, voice, spoken)
    assert 0.97 * 2400 < len(prompt.ids) <= 2400


@pytest.mark.parametrize("room", [Room(3133, 3133), Room(16_384, 2072)])
def test_a_model_that_holds_hardly_a_text_is_refused_and_says_what_is_needed(room: Room) -> None:
    with pytest.raises(EngineError, match=r"too short .* at least 3134 and 2073 are needed"):
        room.max_text_characters()
    Room(3134, 2073).max_text_characters()


def test_an_engine_of_another_vocabulary_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    """One with a pruned head, or of another model, would speak garbage."""
    engine = write_engine(tmp_path / "engine", vocab_size=8194)
    site = Site(checkpoint, llm="tensorrtllm", engine_dir=engine)

    with pytest.raises(EngineError, match=r"a vocabulary of 8194, the language model in .* 166000"):
        find_specs("spark_tts", site)


def test_a_sequence_that_is_too_short_is_an_error_of_rendering(checkpoint: Path) -> None:
    with pytest.raises(EngineError, match="sequences of 3133 tokens with prompts of 3133"):
        find_specs("spark_tts", Site(checkpoint, max_sequence_tokens=3133))


def test_a_stage_may_have_several_instances_and_what_is_stopped_by_requests_not(
    checkpoint: Path,
) -> None:
    specs = find_specs("spark_tts", Site(checkpoint, instances={"vocoder": 2}))

    assert {spec.name: spec.instances for spec in specs} == {
        "llm": 1,
        "vocoder": 2,
        "audio_tokenizer": 1,
        "spark_tts": 1,
    }
    for name in ("llm", "spark_tts", "nobody"):
        with pytest.raises(
            EngineError, match=rf"'{name}' cannot have several .*: audio_tokenizer, vocoder"
        ):
            find_specs("spark_tts", Site(checkpoint, instances={name: 2}))


def test_stages_are_told_what_to_compute_with(checkpoint: Path) -> None:
    site = Site(checkpoint, device="cuda", dtype="bfloat16", threads=3)

    for spec in find_specs("spark_tts", site)[:3]:
        given = {name: spec.parameters[name] for name in ("device", "dtype", "threads")}
        assert given == {"device": "cuda", "dtype": "bfloat16", "threads": "3"}


def test_half_of_the_cores_are_computed_with() -> None:
    assert Site().threads == max(1, len(os.sched_getaffinity(0)) // 2)


def test_windows_share_batches_and_recordings_do_not(checkpoint: Path) -> None:
    specs = find_specs("spark_tts", Site(checkpoint))
    _, vocoder, tokenizer, front = map(model_config, specs)
    assert vocoder.max_batch_size == 16
    ragged = [tensor.name for tensor in vocoder.input if tensor.allow_ragged_batch]
    assert ragged == ["semantic_tokens"]
    policy = vocoder.dynamic_batching.default_queue_policy
    assert policy.max_queue_size == 2 * AT_ONCE
    assert policy.default_timeout_microseconds == 60_000_000
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


def test_render_writes_an_engines_model_too(checkpoint: Path, tmp_path: Path) -> None:
    repository, engine = tmp_path / "repository", write_engine(tmp_path / "engine")
    options = ["--model", "spark_tts", "--model-dir", str(checkpoint), "--llm", "tensorrtllm"]
    more = ["--engine-dir", str(engine), "--kv-cache-fraction", "0.3", "--instances", "vocoder=2"]

    code = main(["render", *options, *more, str(repository)])

    assert code == 0
    names = {*STAGES[1:], "spark_tts", "tensorrt_llm"}
    assert {path.name for path in repository.iterdir()} == names
    written = {name: _written(repository, name) for name in names}
    fraction = written["tensorrt_llm"].parameters["kv_cache_free_gpu_mem_fraction"]
    assert fraction.string_value == "0.3"
    assert written["vocoder"].instance_group[0].count == 2


def _written(repository: Path, name: str) -> model_config_pb2.ModelConfig:
    text = (repository / name / "config.pbtxt").read_text(encoding="utf-8")
    return text_format.Parse(text, model_config_pb2.ModelConfig())


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--kv-cache-fraction", "1"], "'1' is no number between 0 and 1"),
        (["--kv-cache-fraction", "half"], "'half' is no number between 0 and 1"),
        (["--max-sequence-tokens", "0"], "'0' is no whole number from 1 to 2147483647"),
        (["--instances", "vocoder"], "'vocoder' is no MODEL=COUNT, the count from 1 to 64"),
        (["--instances", "=2"], "'=2' is no MODEL=COUNT"),
        (["--instances", "vocoder=65"], "'vocoder=65' is no MODEL=COUNT, the count from 1 to 64"),
        (["--device", "bogus"], "'bogus' is no device; cpu, cuda and cuda:NUMBER are"),
        (["--dtype", "bogus"], "(choose from"),
        (["--triton-address", "bogus"], "'bogus' must be HOST:PORT, without a scheme"),
        (["--triton-address", "h:65536"], "'h:65536' must be HOST:PORT"),
        (["--triton-address", "http://h:80"], "'http://h:80' must be HOST:PORT"),
    ],
)
def test_an_option_that_cannot_be_is_named(
    option: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["render", "--model", "spark_tts", *option, "nowhere"])

    assert words in capsys.readouterr().err


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
