from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import namedtuple
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from engine.__main__ import main
from engine.errors import EngineError
from engine.fixture import MARK, write_checkpoint
from engine.fixture.language import _chain
from engine.fixture.vocabulary import FULL_TOKENS, write_tokenizer
from fakes.spark import FIRST_IDS
from speech_backend.prompts import Prompter
from speech_backend.tokens import TokenMap

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fixture") / "spark"
    write_checkpoint(folder, "tiny", seed=1)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_the_files_are_where_spark_tts_has_them(tiny: Path) -> None:
    assert set(files(tiny)) == {
        MARK,
        "config.yaml",
        "LLM/config.json",
        "LLM/generation_config.json",
        "LLM/model.safetensors",
        "LLM/special_tokens_map.json",
        "LLM/tokenizer.json",
        "LLM/tokenizer_config.json",
        "BiCodec/config.yaml",
        "BiCodec/model.safetensors",
        "wav2vec2-large-xlsr-53/config.json",
        "wav2vec2-large-xlsr-53/preprocessor_config.json",
        "wav2vec2-large-xlsr-53/model.safetensors",
    }


def test_it_may_speak_longer(tmp_path: Path) -> None:
    """A code of number % 16 = 0 that leaves its phase is one in so many."""
    _, successors = _chain({f"<|bicodec_semantic_{n}|>": n for n in range(8192)}, 8192, leaving=16)
    _, usual = _chain({f"<|bicodec_semantic_{n}|>": n for n in range(8192)}, 8192, leaving=8)
    write_checkpoint(tmp_path / "long", "tiny", seed=1, speech_seconds=5.12)

    assert [len(np.unique(each, axis=0)) for each in (successors, usual)] == [17, 17]
    staying = [(each[::16] == each[0]).all(axis=1).mean() for each in (successors, usual)]
    assert staying == [15 / 16, 7 / 8]
    assert json.loads((tmp_path / "long" / MARK).read_bytes())["leaving"] == 16


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "0.3", "3", "20.8"])
def test_it_speaks_as_long_as_is_said_or_is_not_written(
    seconds: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "random"

    assert main(["fixture", "--tiny", str(folder), "--speech-seconds", seconds]) == 1

    words = f"error: --speech-seconds {seconds} is not possible; 0.32 to 20.48 are, in steps of 0.3"
    assert words in capsys.readouterr().err
    assert not folder.exists()


def test_the_same_seed_writes_the_same_files_and_another_does_not(
    tiny: Path, tmp_path: Path
) -> None:
    write_checkpoint(tmp_path / "same", "tiny", seed=1)
    write_checkpoint(tmp_path / "other", "tiny", seed=2)

    assert files(tmp_path / "same") == files(tiny)
    different = {n for n, data in files(tmp_path / "other").items() if data != files(tiny)[n]}
    assert {name for name in different if name.endswith("safetensors")} == {
        name for name in files(tiny) if name.endswith("safetensors")
    }


def test_the_tokenizer_has_every_control_token_and_splits_words(tiny: Path) -> None:
    tokenizer = Tokenizer.from_file(str(tiny / "LLM" / "tokenizer.json"))
    text = "The voice says: \N{SNOWMAN} 今天, it's 7!\n"
    tokens = TokenMap.from_vocabulary(tokenizer.get_vocab())

    ids = tokenizer.encode(text, add_special_tokens=False).ids
    prompt = Prompter(tokens, lambda words: tokenizer.encode(words).ids).clone(text, np.zeros(32))

    assert tokenizer.decode(ids) == text
    assert len(ids) < len(text.encode())
    assert prompt.ids[2:-35].tolist() == ids
    rows = load_file(tiny / "LLM" / "model.safetensors")["model.embed_tokens.weight"]
    assert len(rows) == json.loads((tiny / "LLM" / "config.json").read_bytes())["vocab_size"]
    assert max(tokenizer.get_vocab().values()) == len(rows) - 1


def test_at_full_size_the_ids_are_spark_tts_own(tmp_path: Path) -> None:
    vocabulary = write_tokenizer(tmp_path, full=True)

    tokens = TokenMap.from_vocabulary(vocabulary)
    found = {prefix: vocabulary[f"<|{prefix}_0|>"] for prefix in FIRST_IDS}
    assert found == FIRST_IDS
    assert (tokens.marks["im_end"], tokens.marks["end_semantic_token"]) == (151_645, 165_157)
    assert len(set(vocabulary.values())) == len(vocabulary)
    assert max(vocabulary.values()) < FULL_TOKENS


def test_a_checkpoint_of_ours_is_replaced(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "tiny", seed=2)
    (tmp_path / "LLM" / "old.bin").touch()

    write_checkpoint(tmp_path, "tiny", seed=1)

    mark = {"size": "tiny", "seed": 1, "leaving": 8}
    assert json.loads((tmp_path / MARK).read_bytes()) == mark
    assert not (tmp_path / "LLM" / "old.bin").exists()


def test_a_folder_with_anything_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")

    with pytest.raises(EngineError, match="not empty and holds no checkpoint of random weights"):
        write_checkpoint(tmp_path, "tiny", seed=1)

    assert files(tmp_path) == {"model.safetensors": b"weights"}


def test_a_disk_that_is_too_full_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage: Any = namedtuple("usage", "total used free")  # noqa: PYI024  as shutil's own
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**10, 9 * 10**9, 10**9))

    with pytest.raises(EngineError, match=r"has 1\.0 GB free, the checkpoint needs 4\.5 GB"):
        write_checkpoint(tmp_path, "full", seed=1)

    assert files(tmp_path) == {}


def test_the_command_prints_the_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "spark"

    code = main(["fixture", "--tiny", str(folder), "--seed", "3"])

    megabytes = sum(len(data) for data in files(folder).values()) / 1e6
    assert code == 0
    assert capsys.readouterr().out == f"{folder}: {megabytes:,.0f} MB\n"
    assert json.loads((folder / MARK).read_bytes())["seed"] == 3


def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("engine.fixture")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tokenizers", None)

    code = main(["fixture", "--tiny", str(tmp_path)])

    assert code == 1
    assert "pip install 'speech-gateway[spark]'" in capsys.readouterr().err


@pytest.mark.parametrize("blocks", [100, 6000], ids=["tokenizer", "weights"])
def test_a_disk_that_refuses_is_a_sentence(tmp_path: Path, blocks: int) -> None:
    """The libraries that write have errors of their own; here files may be of so many blocks."""
    command = f"ulimit -f {blocks}; exec {sys.executable} -I -m engine fixture --tiny spark"

    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (1, "error: spark: File too large\n")
