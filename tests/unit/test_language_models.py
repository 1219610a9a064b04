"""Which language model `render` and `serve` take: a kind that is known, or one that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.__main__ import main
from fakes.checkpoint import ROWS, write_checkpoint
from fakes.engine_folder import write_engine

if TYPE_CHECKING:
    from pathlib import Path

KINDS = "transformers, vllm, tensorrtllm"


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    write_checkpoint(tmp_path / "spark")
    return ["--model", "spark_tts", "--model-dir", str(tmp_path / "spark")]


@pytest.fixture
def engine(tmp_path: Path) -> list[str]:
    folder = write_engine(tmp_path / "engine", vocab_size=ROWS)
    return ["--llm", "tensorrtllm", "--engine-dir", str(folder)]


def test_a_kind_that_is_not_known_is_refused(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["render", *options, "--llm", "foo", str(tmp_path / "repository")])

    assert code == 1
    assert f"error: --llm foo is not known: there are {KINDS}, and" in capsys.readouterr().err
    assert not (tmp_path / "repository").exists()


def test_a_model_that_is_no_language_model_is_refused(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = str(tmp_path / "repository")
    main(["render", *options, repository])

    code = main(["render", *options, "--llm", "vocoder", repository])

    assert code == 1
    assert "vocoder/config.pbtxt has no input input_ids; there are trans" in capsys.readouterr().err


def test_a_language_model_that_is_there_is_called(options: list[str], tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    main(["render", *options, str(repository)])
    for path in (repository / "llm").rglob("config.pbtxt"):
        path.write_text(path.read_text(encoding="utf-8").replace('"llm"', '"mine"'), "utf-8")
    (repository / "llm").rename(repository / "mine")

    assert main(["render", *options, "--llm", "mine", str(repository)]) == 0

    text = (repository / "spark_tts" / "config.pbtxt").read_text(encoding="utf-8")
    assert 'string_value: "mine"' in text
    assert not (repository / "llm").exists()


@pytest.mark.parametrize("first", ["llm", "tensorrt_llm"])
def test_a_language_model_of_another_kind_is_not_left_to_be_loaded(
    first: str,
    options: list[str],
    engine: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    repository = tmp_path / "repository"
    kinds = ([], engine) if first == "llm" else (engine, [])
    main(["render", *options, *kinds[0], str(repository)])
    before = {path: path.read_bytes() for path in repository.rglob("*.pbtxt")}

    code = main(["render", *options, *kinds[1], str(repository)])

    assert code == 1
    found = capsys.readouterr().err
    assert f"error: {repository / first} is a language model of another kind, which" in found
    assert {path: path.read_bytes() for path in repository.rglob("*.pbtxt")} == before
    assert main(["render", "--model", "hibari", str(repository)]) == 0


def test_the_same_kind_is_rendered_again(options: list[str], tmp_path: Path) -> None:
    for device in ("cpu", "cuda"):
        assert main(["render", *options, "--device", device, str(tmp_path / "repository")]) == 0
