"""Other names for models and voices, from a TOML file: OpenAI's work without a change."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any

from gateway.speech.toml_file import TomlFile

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path


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
        aliases = _aliases(TomlFile("the built-in aliases", text))
        return Aliases(
            {a: m for a, m in aliases.models.items() if m in models and a not in models},
            {model: voices for model, voices in aliases.voices.items() if model in models},
        )
    file = TomlFile.read(path, "SPEECH_ALIASES_FILE")
    aliases = _aliases(file)
    _check_served(file, aliases, models)
    return aliases


def _aliases(file: TomlFile) -> Aliases:
    for key in file.content.keys() - {"models", "voices"}:
        raise file.error(key, "", "is no table here; there are [models] and [voices.MODEL]")
    models = _names(file, "models", file.content.get("models", {}))
    voices = file.content.get("voices", {})
    if not isinstance(voices, dict):
        raise file.error("voices", "", "must be tables: [voices.MODEL]")
    return Aliases(
        models,
        {model: _names(file, f"voices.{model}", names) for model, names in voices.items()},
    )


def _check_served(file: TomlFile, aliases: Aliases, models: Sequence[str]) -> None:
    for alias, model in aliases.models.items():
        if alias in models:
            raise file.error(alias, "models", "is a served model's own name")
        if model not in models:
            what = f"stands for {model!r}, which is not served; SPEECH_MODELS = {list(models)}"
            raise file.error(alias, "models", what)
    for model in aliases.voices:
        if model not in models:
            what = f"{model!r} is not served; SPEECH_MODELS = {list(models)}"
            raise file.error(model, "voices", what)


def _names(file: TomlFile, table: str, content: Any) -> dict[str, str]:
    if not isinstance(content, dict):
        raise file.error(table.rpartition(".")[2], table.rpartition(".")[0], "must be a table")
    for alias, target in content.items():
        file.check_name(alias, table)
        if not isinstance(target, str) or not target:
            what = f'must stand for a name in quotes, as in alloy = "heart"; given: {target!r}'
            raise file.error(alias, table, what)
    return dict(content)
