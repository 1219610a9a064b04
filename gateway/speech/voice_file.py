"""Voices that an operator gives to models: recordings to clone, or labels to make one from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from gateway.audio.reference import UnfitReferenceError, read_reference
from gateway.speech.toml_file import TomlFile
from gateway.speech.types import Labels, Reference, Voice

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

FileVoices: TypeAlias = "dict[str, tuple[Voice, ...]]"
"""Model → its voices, in the file's order."""

REFERENCE_KEYS = ("reference", "transcript", "language")
LABEL_KEYS = ("gender", "pitch", "speed", "language")
GENDERS = ("female", "male")
LEVELS = ("very_low", "low", "moderate", "high", "very_high")
ALLOWED = {"gender": GENDERS, "pitch": LEVELS, "speed": LEVELS}


def load_voices(path: Path | None, models: Sequence[str]) -> FileVoices:
    """Read the file and its recordings; raises SettingsError naming file and line.

    `models` are those that are served. Without a file there are no such voices.
    """
    if path is None:
        return {}
    file = TomlFile.read(path, "SPEECH_VOICES_FILE")
    found: FileVoices = {}
    for model, voices in file.content.items():
        if model not in models:
            what = f"is no served model; SPEECH_MODELS = {list(models)}"
            raise file.error(model, "", what)
        if not isinstance(voices, dict):
            raise file.error(model, "", "must be tables: [MODEL.VOICE]")
        found[model] = tuple(
            _Table(file, model, name, table).voice(path.parent) for name, table in voices.items()
        )
    return found


class _Table:
    """One voice's table."""

    def __init__(self, file: TomlFile, model: str, name: str, content: Any) -> None:
        self._file = file
        self._model = model
        self._name = name
        file.check_name(name, model)
        if not isinstance(content, dict):
            raise file.error(name, model, f"must be a table: [{model}.{name}]")
        self._content = content

    def voice(self, folder: Path) -> Voice:
        is_reference, is_made = "reference" in self._content, "gender" in self._content
        if is_reference == is_made:
            what = "must have either a reference (a recording) or a gender (to make a voice)"
            raise self._file.error(self._name, self._model, what)
        self._check(REFERENCE_KEYS if is_reference else LABEL_KEYS)
        source = self._reference(folder) if is_reference else self._labels()
        return Voice(self._name, self._model, self._content.get("language"), source)

    def _check(self, allowed: Collection[str]) -> None:
        for key, value in self._content.items():
            if key not in allowed:
                raise self._error(key, f"is not known here; allowed are {', '.join(allowed)}")
            if not isinstance(value, str) or not value.strip():
                raise self._error(key, f"must be text in quotes; given: {value!r}")
            if key in ALLOWED and value not in ALLOWED[key]:
                raise self._error(key, f"is {value!r}; allowed are {', '.join(ALLOWED[key])}")

    def _reference(self, folder: Path) -> Reference:
        name = self._content["reference"]
        try:
            samples = read_reference(folder / name)
        except UnfitReferenceError as error:
            raise self._error("reference", f"= {name!r} {error}") from error
        return Reference(samples, self._content.get("transcript"))

    def _labels(self) -> Labels:
        given = self._content
        return Labels(
            given["gender"], given.get("pitch", "moderate"), given.get("speed", "moderate")
        )

    def _error(self, key: str, what: str) -> Exception:
        return self._file.error(key, f"{self._model}.{self._name}", what)
