"""Other names for models and voices, from a TOML file: OpenAI's work without a change."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any

from gateway.settings import SettingsError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

NAME = re.compile(r"[^\x00-\x1f\x7f/\\]{1,256}")
"""What an alias may be: any letters, nothing that steers a terminal or names a path."""
HEADER = re.compile(r"\s*\[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class Aliases:
    """Alias → model, and for each model alias → voice."""

    models: dict[str, str] = field(default_factory=dict)
    voices: dict[str, dict[str, str]] = field(default_factory=dict)

    def model(self, name: str) -> str:
        """Return the model that is meant; a name that is no alias is returned as it is."""
        return self.models.get(name, name)

    def voice(self, model: str, name: str) -> str:
        """Return the model's voice that is meant; what is no alias is returned as it is."""
        return self.voices.get(model, {}).get(name, name)

    def of(self, model: str, voices: Collection[str]) -> dict[str, str]:
        """Return the aliases that stand for one of these voices, without those voices' names."""
        return {
            alias: voice
            for alias, voice in self.voices.get(model, {}).items()
            if voice in voices and alias not in voices
        }


def load_aliases(path: Path | None, models: Sequence[str]) -> Aliases:
    """Read the file, or the built-in table; raises SettingsError naming file and line.

    `models` are those that are served. The built-in table's other models are left out.
    """
    if path is None:
        text = resources.files("gateway.speech").joinpath("aliases.toml").read_text("utf-8")
        aliases = _Table("the built-in aliases", text).aliases()
        return Aliases(
            {a: m for a, m in aliases.models.items() if m in models and a not in models},
            {model: voices for model, voices in aliases.voices.items() if model in models},
        )
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"SPEECH_ALIASES_FILE = {str(path)!r}: {error}") from error
    table = _Table(str(path), text)
    aliases = table.aliases()
    table.check_served(aliases, models)
    return aliases


class _Table:
    """One alias file: its text, and errors that name the line."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._lines = text.splitlines()
        try:
            self._content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(f"{name}: {error}") from error

    def aliases(self) -> Aliases:
        for key in self._content.keys() - {"models", "voices"}:
            raise self._error(key, "", "is no table here; there are [models] and [voices.MODEL]")
        models = self._names("models", self._content.get("models", {}))
        voices = self._content.get("voices", {})
        if not isinstance(voices, dict):
            raise self._error("voices", "", "must be tables: [voices.MODEL]")
        return Aliases(
            models,
            {model: self._names(f"voices.{model}", names) for model, names in voices.items()},
        )

    def check_served(self, aliases: Aliases, models: Sequence[str]) -> None:
        for alias, model in aliases.models.items():
            if alias in models:
                raise self._error(alias, "models", "is a served model's own name")
            if model not in models:
                what = f"stands for {model!r}, which is not served; SPEECH_MODELS = {list(models)}"
                raise self._error(alias, "models", what)
        for model in aliases.voices:
            if model not in models:
                what = f"{model!r} is not served; SPEECH_MODELS = {list(models)}"
                raise self._error(model, "voices", what)

    def _names(self, table: str, content: Any) -> dict[str, str]:
        if not isinstance(content, dict):
            raise self._error(table.rpartition(".")[2], table.rpartition(".")[0], "must be a table")
        for alias, target in content.items():
            if not NAME.fullmatch(alias):
                what = "must have 1 to 256 characters, no slash and no control character"
                raise self._error(alias, table, what)
            if not isinstance(target, str) or not target:
                what = f'must stand for a name in quotes, as in alloy = "heart"; given: {target!r}'
                raise self._error(alias, table, what)
        return dict(content)

    def _error(self, key: str, table: str, what: str) -> SettingsError:
        where = f"[{table}] " if table else ""
        return SettingsError(f"{self._name}, line {self._line(key, table)}: {where}{key!r} {what}")

    def _line(self, key: str, table: str) -> int:
        """Return the number of the key's line, else of the nearest table's, else 1."""
        within, nearest = "", 1
        for number, line in enumerate(self._lines, 1):
            if header := HEADER.match(line):
                within = re.sub("[\"' ]", "", header[1])
                nearest = number if within in (table, f"{table}.{key}".strip(".")) else nearest
            elif within == table and line.partition("=")[0].strip().strip("\"'") == key:
                return number
        return nearest
