"""What a checkpoint is made of counts by its content, not by its name alone."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from engine.__main__ import main
from engine.convert import Scripts, convert
from engine.errors import EngineError
from engine.spec import EngineSpec
from fakes.workshop import SPEC, Workshop

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    return Workshop(tmp_path, monkeypatch)


def test_a_checkpoint_of_another_calibration_of_that_name_is_refused(workshop: Workshop) -> None:
    calibration = workshop.folder / "speech"
    calibration.mkdir()
    (calibration / "train.jsonl").write_text("one", encoding="utf-8")
    spec = EngineSpec(kv_cache="int8", calibration=str(calibration))
    workshop.convert(spec)
    workshop.convert(spec)
    (calibration / "train.jsonl").write_text("two", encoding="utf-8")

    with pytest.raises(EngineError, match="was made from something else"):
        workshop.convert(spec)


def test_a_checkpoint_of_another_script_of_that_name_is_refused(workshop: Workshop) -> None:
    mine = workshop.folder / "convert_checkpoint.py"
    shutil.copyfile(Scripts(workshop.folder / "machine" / "examples").find(SPEC), mine)
    scripts = Scripts(convert=mine)
    for _ in range(2):
        convert(SPEC, workshop.llm, workshop.checkpoint, scripts)
    mine.write_text(mine.read_text(encoding="utf-8") + "# another\n", encoding="utf-8")

    with pytest.raises(EngineError, match="was made from something else"):
        convert(SPEC, workshop.llm, workshop.checkpoint, scripts)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--convert-script", "no.py"], "--convert-script no.py is not there, or no file; check"),
        (["--kv-cache", "int8", "--calibration", "./no"], "--calibration ./no is not there; it is"),
        (["--kv-cache", "int8", "--calibration", "/no"], "--calibration /no is not there; it is a"),
    ],
)
def test_what_should_be_here_and_is_not_is_said_before_all(
    given: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["all", "--work", str(tmp_path / "work"), "--dry-run", *given]) == 1

    assert f"error: {words}" in capsys.readouterr().err
    assert not (tmp_path / "work").exists()


def test_a_name_of_the_hubs_need_not_be_here(tmp_path: Path) -> None:
    given = ["--kv-cache", "int8", "--calibration", "owner/speech"]

    code = main(["all", "--work", str(tmp_path / "work"), "--dry-run", *given])

    assert code == 0
