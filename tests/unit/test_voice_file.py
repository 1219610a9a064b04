"""The voices file: what it says, and every mistake with its line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakes.recordings import record
from gateway.settings import SettingsError
from gateway.speech.types import Labels, Reference, Voice
from gateway.speech.voice_file import load_voices

if TYPE_CHECKING:
    from pathlib import Path

MODELS = ["spark_tts", "hibari"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    record(tmp_path / "anna.wav", 1.5)
    record(tmp_path / "short.wav", 0.5)
    return tmp_path / "voices.toml"


def test_without_a_file_there_are_none() -> None:
    assert load_voices(None, MODELS) == {}


def test_a_recording_is_read_beside_the_file(path: Path) -> None:
    path.write_text(
        '[spark_tts.anna]\nreference = "anna.wav"\ntranscript = "Hello."\nlanguage = "en"\n'
        '[spark_tts."小 明"]\nreference = "anna.wav"\n',
        "utf-8",
    )

    anna, ming = load_voices(path, MODELS)["spark_tts"]

    assert (anna.id, anna.model, anna.language) == ("anna", "spark_tts", "en")
    assert isinstance(anna.source, Reference)
    assert anna.source.transcript == "Hello."
    assert len(anna.source.samples) == 24_000
    assert (ming.id, ming.language) == ("小 明", None)
    assert isinstance(ming.source, Reference)
    assert ming.source.transcript is None
    assert ming.source.digest == anna.source.digest


def test_labels_have_defaults(path: Path) -> None:
    path.write_text(
        '[spark_tts.bob]\ngender = "male"\n'
        '[spark_tts.eve]\ngender = "female"\npitch = "very_high"\nspeed = "low"\nlanguage = "zh"\n',
        "utf-8",
    )

    assert load_voices(path, MODELS) == {
        "spark_tts": (
            Voice("bob", "spark_tts", None, Labels("male", "moderate", "moderate")),
            Voice("eve", "spark_tts", "zh", Labels("female", "very_high", "low")),
        )
    }


A = "[spark_tts.a]\n"
WRONG = [
    # id, file, line, words
    ("no TOML", f"{A}gender = male\n", 2, ["line 2"]),
    ("twice", f'{A}gender = "male"\n{A}gender = "male"\n', 3, ["line 3"]),
    ("a model that is not served", '\n[sprak.a]\ngender = "male"\n', 2, ["sprak", "hibari"]),
    ("no tables", 'spark_tts = "a"\n', 1, ["spark_tts", "[MODEL.VOICE]"]),
    ("no table", '[spark_tts]\n# one\na = "a.wav"\n', 3, ["'a'", "[spark_tts.a]"]),
    ("neither", f'{A}language = "en"\n', 1, ["'a'", "reference", "gender"]),
    ("both", f'{A}gender = "male"\nreference = "anna.wav"\n', 1, ["'a'", "either"]),
    ("a path as name", '[spark_tts."../a"]\ngender = "male"\n', 1, ["../a", "slash"]),
    ("a control character", '[spark_tts."a\\u001b"]\ngender = "male"\n', 1, ["control"]),
    ("an unknown label", f'{A}gender = "male"\nage = "5"\n', 3, ["age", "pitch, speed, language"]),
    ("an unknown key", f'{A}reference = "anna.wav"\ntext = "a"\n', 3, ["text", "transcript"]),
    ("a label too many", f'{A}reference = "anna.wav"\npitch = "low"\n', 3, ["pitch", "transcript"]),
    ("a gender", f'{A}gender = "divers"\n', 2, ["divers", "female, male"]),
    ("a pitch", f'{A}gender = "male"\npitch = "medium"\n', 3, ["medium", "very_low", "moderate"]),
    ("a number", f'{A}gender = "male"\nspeed = 2\n', 3, ["speed", "quotes", "2"]),
    ("an empty transcript", f'{A}reference = "anna.wav"\ntranscript = " "\n', 3, ["transcript"]),
    ("no recording", f'{A}reference = "none.wav"\n', 2, ["none.wav", "no such file"]),
    ("no audio", f'{A}reference = "voices.toml"\n', 2, ["voices.toml", "wav, flac, ogg or mp3"]),
    ("too short", f'{A}reference = "short.wav"\n', 2, ["short.wav", "0.50 s", "1 to 30 s"]),
    ("the second", f'{A}gender = "male"\n\n[spark_tts.b]\npitch = "low"\n', 4, ["'b'", "gender"]),
    ("in one line", '[spark_tts]\n\na = { gender = "x" }\n', 3, ["gender", "female"]),
    ("dotted", 'spark_tts.b.gender = "male"\nspark_tts.a.gender = "x"\n', 2, ["gender", "female"]),
]


@pytest.mark.parametrize(
    ("content", "line", "words"), [pytest.param(*row[1:], id=row[0]) for row in WRONG]
)
def test_a_wrong_file_is_an_error_that_names_the_line(
    path: Path, content: str, line: int, words: list[str]
) -> None:
    path.write_text(content, "utf-8")

    with pytest.raises(SettingsError) as caught:
        load_voices(path, MODELS)

    message = str(caught.value)
    assert str(path) in message
    assert f"line {line}" in message
    assert not [word for word in words if word not in message]


def test_a_file_that_cannot_be_read_is_named_with_its_setting(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"SPEECH_VOICES_FILE.*none\.toml"):
        load_voices(tmp_path / "none.toml", MODELS)
