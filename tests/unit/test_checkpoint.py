"""A checkpoint that broke off or lacks something is named before anything is made of it."""

from __future__ import annotations

import json
import shutil
import zipfile
from typing import TYPE_CHECKING

import pytest

from engine.__main__ import main
from engine.artefacts import make
from engine.checkpoint import check_checkpoint
from engine.errors import EngineError
from engine.fixture import write_checkpoint as write_fixture
from fakes.checkpoint import write_checkpoint, write_weights

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WAV2VEC2 = "wav2vec2-large-xlsr-53"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "spark")
    return tmp_path / "spark"


def cut(name: str, size: int) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


def write(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text, encoding="utf-8")


def remove(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def append(path: Path, data: bytes) -> None:
    path.write_bytes(path.read_bytes() + data)


def change(path: Path, **values: object) -> None:
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | values), encoding="utf-8")


def index(folder: Path) -> None:
    names = {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}
    text = json.dumps({"weight_map": names})
    (folder / "LLM" / "model.safetensors.index.json").write_text(text, encoding="utf-8")


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "language model cut": (
        cut("LLM/model.safetensors", 1000),
        "LLM/model.safetensors has 1000 bytes, its header says 3000000: it is not whole; fetch",
    ),
    "codec cut": (cut("BiCodec/model.safetensors", 500), "has 500 bytes, its header says 1000: i"),
    "codec longer": (
        lambda folder: append(folder / "BiCodec/model.safetensors", b"more"),
        "model.safetensors has 1004 bytes, its header says 1000",
    ),
    "cut in its header": (cut("LLM/model.safetensors", 100), "has 100 bytes, its header says 128"),
    "cut in its first bytes": (cut("LLM/model.safetensors", 7), "is no safetensors file (7 bytes)"),
    "empty": (cut(f"{WAV2VEC2}/model.safetensors", 0), "is no safetensors file (0 bytes)"),
    "a pointer to the weights": (
        write("LLM/model.safetensors", "version https://git-lfs.github.com/spec/v1\n"),
        "LLM/model.safetensors is no safetensors file (43 bytes); fetch it again",
    ),
    "a header without numbers": (
        lambda folder: (folder / "LLM/model.safetensors").write_bytes(
            b"\x27" + bytes(7) + b'{"a": {"data_offsets": ["x", "y"]}}    '
        ),
        "is no safetensors file, its header cannot be read (ValueError(",
    ),
    "another header": (
        lambda folder: (folder / "LLM/model.safetensors").write_bytes(b"\2" + bytes(7) + b"[]"),
        "is no safetensors file, its header cannot be read (AttributeError(",
    ),
    "no tensors": (
        lambda folder: (folder / "LLM/model.safetensors").write_bytes(b"\2" + bytes(7) + b"{}"),
        "LLM/model.safetensors holds no tensors; fetch it again",
    ),
    "no end of brackets": (
        write("LLM/config.json", "[" * 100_000),
        "LLM/config.json is no JSON (maximum recursion depth exceeded",
    ),
    "no weights": (
        remove("LLM/model.safetensors"),
        "LLM has no weights (*.safetensors or pytorch_model*.bin); is the checkpoint complete?",
    ),
    "one file of two": (index, "LLM lacks model-00002-of-00002.safetensors, which model.safe"),
    "index without map": (
        write("LLM/model.safetensors.index.json", "{}"),
        "model.safetensors.index.json has no weight_map; fetch it again",
    ),
    "torch's file cut": (
        write(f"{WAV2VEC2}/pytorch_model.bin", "PK but no list at the end"),
        "pytorch_model.bin is no whole file of torch's (25 bytes); fetch it again",
    ),
    "half a config": (write("LLM/config.json", "{"), "LLM/config.json is no JSON (Expecting prop"),
    "a config without sizes": (write("LLM/config.json", "{}"), "its weights have None rows"),
    "a config of another model": (
        lambda folder: change(folder / "LLM/config.json", model_type="llama"),
        'LLM/config.json is no configuration of qwen2: its model_type is "llama"; fetch it again',
    ),
    "an empty config": (
        write(f"{WAV2VEC2}/config.json", "{}"),
        f"{WAV2VEC2}/config.json is no configuration of wav2vec2: its model_type is null; fetch it",
    ),
    "no object": (write(f"{WAV2VEC2}/config.json", "[]"), "config.json is no JSON object"),
    "no tokenizer": (remove("LLM/tokenizer.json"), "it lacks LLM/tokenizer.json"),
    "another tokenizer": (write("LLM/tokenizer.json", "{}"), "tokenizer lacks <|bicodec_semanti"),
    "a tokenizer without numbers": (
        write("LLM/tokenizer.json", '{"added_tokens": [{"id": null, "content": "a"}]}'),
        "is no tokenizer of the Hub's format (TypeError(",
    ),
    "empty YAML": (
        write("BiCodec/config.yaml", ""),
        "BiCodec/config.yaml is no configuration of BiCodec: it lacks audio_tokenizer, mel_params,",
    ),
    "half of YAML": (
        cut("BiCodec/config.yaml", 70),
        "it lacks speaker_encoder, prenet; was it written to its end?",
    ),
    "bytes for YAML": (
        lambda folder: (folder / "BiCodec/config.yaml").write_bytes(b"\xff\xfe\0"),
        "config.yaml is no configuration of BiCodec",
    ),
    "no recordings": (
        remove(f"{WAV2VEC2}/preprocessor_config.json"),
        f"it lacks {WAV2VEC2}/preprocessor_config.json",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_broken_is_named(checkpoint: Path, case: str) -> None:
    spoil, words = BROKEN[case]
    spoil(checkpoint)

    with pytest.raises(EngineError) as caught:
        check_checkpoint(checkpoint)

    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_written_here_is_whole(checkpoint: Path, tmp_path: Path) -> None:
    write_fixture(tmp_path / "tiny", "tiny", seed=1)

    check_checkpoint(tmp_path / "tiny")
    check_checkpoint(checkpoint)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("hidden_size", 896, "says hidden_size 896, the weights beside it have "),
        ("hidden_size", None, "says hidden_size null, the weights beside it have "),
        ("num_hidden_layers", 24, "says num_hidden_layers 24, the weights beside it have "),
    ],
)
def test_a_configuration_of_other_weights_is_refused(
    name: str, value: object, words: str, tmp_path: Path
) -> None:
    write_fixture(tmp_path / "tiny", "tiny", seed=1)
    config = tmp_path / "tiny" / "LLM" / "config.json"
    size = json.loads(config.read_text(encoding="utf-8"))[name]
    change(config, **{name: value})

    with pytest.raises(EngineError, match=f"{words}{size}; take both from one revision"):
        check_checkpoint(tmp_path / "tiny")


def test_torchs_own_files_of_weights_are_weights(checkpoint: Path) -> None:
    """Spark-TTS's repository has wav2vec2 so."""
    folder = checkpoint / WAV2VEC2
    (folder / "model.safetensors").unlink()
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as file:
        file.writestr("pytorch_model/data.pkl", bytes(1000))

    check_checkpoint(checkpoint)
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x02\x8a" + bytes(1000))
    check_checkpoint(checkpoint)


def test_beside_an_engine_the_language_models_weights_are_not_needed(checkpoint: Path) -> None:
    (checkpoint / "LLM" / "model.safetensors").unlink()

    check_checkpoint(checkpoint, needs_llm=False)


def test_a_download_is_held_against_its_manifest(checkpoint: Path, tmp_path: Path) -> None:
    def copy(part: Path) -> None:
        shutil.copytree(checkpoint, part, dirs_exist_ok=True)

    make(tmp_path / "weights", {}, copy)
    moved = (tmp_path / "weights").rename(tmp_path / "elsewhere")
    check_checkpoint(moved)
    write_weights(moved / "BiCodec" / "model.safetensors", seed=1)

    with pytest.raises(EngineError, match=r"BiCodec/model\.safetensors has other content; fetch"):
        check_checkpoint(moved)


@pytest.mark.parametrize(
    "command",
    [["render"], ["all", "--work"], ["all", "--dry-run", "--work"], ["convert", "--work"]],
)
def test_nothing_is_made_of_a_broken_checkpoint(
    checkpoint: Path, tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    cut("LLM/model.safetensors", 1000)(checkpoint)
    models = ["--model", "spark_tts"] if command == ["render"] else []

    code = main([*command, str(tmp_path / "made"), *models, "--model-dir", str(checkpoint)])

    assert code == 1
    assert (
        "LLM/model.safetensors has 1000 bytes, its header says 3000000" in capsys.readouterr().err
    )
    assert not (tmp_path / "made").exists()
