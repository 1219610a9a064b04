"""A folder of an engine that is not whole, or not what it says, is refused by the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.artefacts import make
from engine.errors import EngineError
from engine.tensorrtllm import read_engine
from fakes.engine_folder import write_engine

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"dtype": "float16"}, "with dtype float16, possible is bfloat16 or float32"),
        ({"kv_cache_type": "CONTINUOUS"}, "with kv_cache_type CONTINUOUS"),
        ({"remove_input_padding": False}, "with remove_input_padding False, possible is True"),
        ({"world_size": 2}, "with world_size 2, possible is 1"),
    ],
)
def test_an_engine_that_cannot_speak_is_refused(
    changed: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(EngineError, match=words):
        read_engine(write_engine(tmp_path, **changed))


def test_a_folder_without_an_engine_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"lacks config\.json, rank0\.engine; --engine-dir is"):
        read_engine(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no JSON (Expecting value"),
        ("{", "is no JSON (Expecting property name"),
        ("[]", "is no JSON object"),
        ("{}", "is no configuration of an engine: KeyError('pretrained_config'); build it again"),
        ('{"pretrained_config": {}, "build_config": 1}', "is no configuration of an engine: "),
    ],
)
def test_a_configuration_that_is_none_is_named(text: str, words: str, tmp_path: Path) -> None:
    write_engine(tmp_path)
    (tmp_path / "config.json").write_text(text, encoding="utf-8")

    with pytest.raises(EngineError) as caught:
        read_engine(tmp_path)

    assert f"config.json {words}" in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"version": None}, "TypeError('version is null')"),
        ({"version": 17}, "TypeError('version is 17')"),
        ({"max_seq_len": 0}, "ValueError('max_seq_len is 0')"),
        ({"max_num_tokens": None}, "ValueError('max_num_tokens is null')"),
        ({"vocab_size": True}, "ValueError('vocab_size is true')"),
        ({"plugin_config": 3}, "AttributeError("),
    ],
)
def test_a_value_that_cannot_be_is_named(
    changed: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(EngineError) as caught:
        read_engine(write_engine(tmp_path, **changed))

    assert f"is no configuration of an engine: {words}" in str(caught.value)


def test_an_engine_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (write_engine(tmp_path) / "rank0.engine").unlink()
    (tmp_path / "rank0.engine").mkdir()

    with pytest.raises(EngineError, match=r"rank0\.engine is a folder; build the engine again"):
        read_engine(tmp_path)


def test_an_engine_that_is_empty_is_refused(tmp_path: Path) -> None:
    (write_engine(tmp_path) / "rank0.engine").write_bytes(b"")

    with pytest.raises(EngineError, match=r"is no whole engine: rank0\.engine is empty; build it"):
        read_engine(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("rank0.engine", b"eng", "rank0.engine has 3 bytes, not 6; build it again"),
        ("rank0.engine", b"ENGINE", "rank0.engine has other content; build it again"),
        (
            "manifest.json",
            b'{"files": {}, "key": "x"}',
            "does not list config.json, rank0.engine; ",
        ),
        (
            "manifest.json",
            b'{"files": {}, "key": "x", "versions": null}',
            "manifest.json cannot be read as a manifest (TypeError(",
        ),
        ("manifest.json", b"{", "manifest.json cannot be read as a manifest (JSONDecodeError("),
        ("manifest.json", b"[]", "manifest.json cannot be read as a manifest (TypeError("),
        ("manifest.json", b"\xff", "manifest.json cannot be read as a manifest (UnicodeDecodeErr"),
    ],
)
def test_an_engine_that_is_not_what_its_manifest_says_is_refused(
    name: str, content: bytes, words: str, tmp_path: Path
) -> None:
    make(tmp_path / "x", {}, lambda part: write_engine(part) and None)
    # Wherever it was copied or mounted.
    folder = (tmp_path / "x").rename(tmp_path / "engine")
    read_engine(folder)
    (folder / name).write_bytes(content)

    with pytest.raises(EngineError) as caught:
        read_engine(folder)

    assert words in str(caught.value)
