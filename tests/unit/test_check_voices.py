"""`speech-gateway check` with voices of a file: each is spoken, and kept."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from fakes.recordings import record
from fakes.tokenizer import FakeTokenizer
from fakes.triton import FakeTriton, Script
from gateway.check import check
from gateway.settings import Settings, SettingsError

if TYPE_CHECKING:
    from pathlib import Path

VOICES = '[spark_tts.anna]\nreference = "anna.wav"\n[spark_tts.bob]\ngender = "male"\n'


def settings(triton: FakeTriton, folder: Path) -> Settings:
    record(folder / "anna.wav")
    file = folder / "voices.toml"
    file.write_text(VOICES, "utf-8")
    return Settings(
        _env_file=None,
        triton_address=triton.address,
        models="spark_tts",
        voices_file=file,
        cache_dir=folder / "cache",
    )


def test_each_voice_speaks_and_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeTriton(Script(voices=(), is_spark=True), models=("spark_tts",)) as spark:
        spark.tokenizer = FakeTokenizer()
        codes = [asyncio.run(check(settings(spark, tmp_path))) for _ in range(2)]

    printed = capsys.readouterr().out
    assert codes == [0, 0]
    assert printed.count("model spark_tts, voice anna: speaks (0.30 s for 'Yes.')") == 2
    assert printed.count("model spark_tts, voice bob: speaks (0.30 s for 'Yes.')") == 2
    assert len(list((tmp_path / "cache").iterdir())) == 2
    assert spark.tokenizer.runs.count == 1
    assert len([said for said in spark.seen.requests if said.gender]) == 1


def test_one_that_does_not_speak_is_named_and_the_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ({"id": "max"}, {"id": "bob"})
    with FakeTriton(Script(voices=own, is_spark=True), models=("spark_tts",)) as spark:
        code = asyncio.run(check(settings(spark, tmp_path)))

    printed = capsys.readouterr().out
    assert code == 1
    assert "model spark_tts: speaks (0.30 s for 'Yes.'); voices: max, bob" in printed
    assert "voice anna: DOES NOT SPEAK: recorded voices need the model" in printed
    assert "voice bob: DOES NOT SPEAK: voice 'bob' of SPEECH_VOICES_FILE is also" in printed


def test_a_wrong_file_is_an_error(triton: FakeTriton, tmp_path: Path) -> None:
    given = settings(triton, tmp_path)
    (tmp_path / "anna.wav").unlink()

    with pytest.raises(SettingsError, match="line 2"):
        asyncio.run(check(given))
