"""Where texts, and recordings to clone, come from."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import soundfile

from gateway.bench.requests import BenchError, Utterance

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TEXTS = Path(__file__).parent / "texts"
COLUMNS = ("id", "prompt_text", "prompt_audio", "target_text")
FIELDS = "id|prompt_text|prompt_wav|text"


def built_in(language: str) -> list[Utterance]:
    """Return sentences of ours, from a word to a paragraph."""
    lines = _lines(TEXTS / f"{language}.txt")
    return [Utterance(f"{language}{number}", line) for number, line in lines]


def text_file(path: Path) -> list[Utterance]:
    """Return each line that is not empty; raises BenchError."""
    lines = _lines(path)
    return [Utterance(f"line{number}", line) for number, line in lines]


def manifest(path: Path) -> list[Utterance]:
    """Return the lines of a manifest, whose recordings are named from its folder on."""
    utterances = []
    for number, line in _lines(path):
        fields = line.split("|")
        if len(fields) != len(FIELDS.split("|")):
            raise BenchError(f"{path}, line {number}: {len(fields)} fields; it is {FIELDS}")
        name, transcript, recording, text = fields
        try:
            reference = (path.parent / recording).read_bytes() if recording else None
        except OSError as error:
            raise BenchError(f"{path}, line {number}: {recording}: {error.strerror}") from error
        utterances.append(Utterance(name, text, reference, transcript))
    return utterances


def dataset(name: str, split: str) -> list[Utterance]:
    """Return the rows of a Hugging Face data set, or of a local folder of one.

    Needs the package `datasets`; raises BenchError.
    """
    try:
        from datasets import Audio, load_dataset  # noqa: PLC0415  heavy, and seldom wanted
    except ImportError as error:
        raise BenchError(
            "--dataset needs the package datasets: pip install 'speech-gateway[datasets]'"
        ) from error
    try:
        rows = load_dataset(name, split=split)
    except (OSError, ValueError) as error:
        raise BenchError(f"--dataset {name}:{split} cannot be loaded: {error}") from error
    if isinstance(rows.features.get("prompt_audio"), Audio):
        # The file as it is: decoding in there needs a decoder of its own.
        rows = rows.cast_column("prompt_audio", Audio(decode=False))
    return from_rows(rows)


def from_rows(rows: Iterable[Mapping[str, Any]]) -> list[Utterance]:
    """Return the utterances of rows with COLUMNS; raises BenchError where one is missing."""
    utterances = []
    for row in rows:
        if missing := [column for column in COLUMNS if column not in row]:
            raise BenchError(f"the data set has no column {missing}; it has {sorted(row)}")
        reference = _recording(row["prompt_audio"])
        utterances.append(
            Utterance(str(row["id"]), row["target_text"], reference, row["prompt_text"])
        )
    return utterances


def _recording(audio: Mapping[str, Any]) -> bytes:
    if audio.get("bytes") is not None:
        return bytes(audio["bytes"])
    if "array" not in audio:
        raise BenchError(f"prompt_audio has {sorted(audio)}; bytes or array are needed")
    file = io.BytesIO()
    soundfile.write(file, audio["array"], audio["sampling_rate"], "PCM_16", format="WAV")
    return file.getvalue()


def _lines(path: Path) -> list[tuple[int, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"{path} cannot be read: {error}") from error
    lines = [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise BenchError(f"{path} has no text")
    return lines
