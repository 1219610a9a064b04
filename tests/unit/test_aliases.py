"""The alias table: OpenAI's names by default, a file of one's own, errors with the line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.settings import SettingsError
from gateway.speech.aliases import Aliases, load_aliases

if TYPE_CHECKING:
    from pathlib import Path

OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15")
OPENAI_VOICES = (
    *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable"),
    *("marin", "nova", "onyx", "sage", "shimmer", "verse"),
)


def test_every_name_of_openai_stands_for_something() -> None:
    aliases = load_aliases(None, ["hibari"])

    assert {aliases.model(name) for name in OPENAI_MODELS} == {"hibari"}
    assert {aliases.voice("hibari", name) for name in OPENAI_VOICES} == {"heart"}


def test_the_built_in_table_leaves_out_models_that_are_not_served() -> None:
    assert load_aliases(None, ["other"]) == Aliases()


def test_the_built_in_table_never_hides_a_served_model() -> None:
    aliases = load_aliases(None, ["hibari", "tts-1"])

    assert aliases.model("tts-1") == "tts-1"
    assert aliases.model("tts-1-hd") == "hibari"


def test_a_name_that_is_no_alias_stays_as_it_is() -> None:
    aliases = Aliases({"tts-1": "hibari"}, {"hibari": {"alloy": "heart"}})

    assert aliases.model("spark") == "spark"
    assert aliases.voice("hibari", "heart") == "heart"
    assert aliases.voice("spark", "alloy") == "alloy"


def test_a_file_of_ones_own_replaces_the_table(tmp_path: Path) -> None:
    path = tmp_path / "aliases.toml"
    path.write_text('[models]\ntts-1 = "spark"\n[voices.spark]\n"小明" = "ming"\n', "utf-8")

    aliases = load_aliases(path, ["spark"])

    assert aliases == Aliases({"tts-1": "spark"}, {"spark": {"小明": "ming"}})


WRONG = [
    # id, file, line, words
    ("no TOML", "[models]\ntts-1 = hibari\n", 2, ["line 2"]),
    ("twice", '[models]\na = "hibari"\na = "hibari"\n', 3, ["line 3"]),
    ("unknown table", '\n[model]\na = "hibari"\n', 2, ["model", "[models]", "[voices.MODEL]"]),
    ("no table", 'models = "hibari"\n', 1, ["models", "table"]),
    ("voices without model", '[models]\n\n[voices]\nalloy = "heart"\n', 4, ["alloy", "table"]),
    ("a number", "[models]\n# one\ntts-1 = 3\n", 3, ["tts-1", "quotes", "3"]),
    ("an empty name", '[voices.hibari]\nalloy = ""\n', 2, ["alloy", "quotes"]),
    ("a path as alias", '[voices.hibari]\n"../a" = "heart"\n', 2, ["slash"]),
    ("a model that is not served", '[models]\ntts-1 = "sprak"\n', 2, ["sprak", "hibari"]),
    ("voices of no served model", '[models]\n[voices.spark]\na = "b"\n', 2, ["spark", "hibari"]),
    ("a model's own name", '[models]\nhibari = "hibari"\n', 2, ["hibari", "own name"]),
]


@pytest.mark.parametrize(
    ("content", "line", "words"), [pytest.param(*row[1:], id=row[0]) for row in WRONG]
)
def test_a_wrong_file_is_an_error_that_names_the_line(
    tmp_path: Path, content: str, line: int, words: list[str]
) -> None:
    path = tmp_path / "aliases.toml"
    path.write_text(content, "utf-8")

    with pytest.raises(SettingsError) as caught:
        load_aliases(path, ["hibari"])

    message = str(caught.value)
    assert str(path) in message
    assert f"line {line}" in message
    assert not [word for word in words if word not in message]


def test_a_file_that_cannot_be_read_is_named_with_its_setting(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"SPEECH_ALIASES_FILE.*none\.toml"):
        load_aliases(tmp_path / "none.toml", ["hibari"])
