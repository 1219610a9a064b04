"""Writes received PCM into a file whose extension names the format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import soundfile

if TYPE_CHECKING:
    from pathlib import Path


class RecordingError(Exception):
    """The file cannot be written as asked."""


def open_recording(path: Path, sample_rate_hz: int) -> soundfile.SoundFile:
    """Open a mono file for `buffer_write(..., "int16")`; its header is right once closed."""
    extension = path.suffix.lstrip(".").upper()
    known = {"OPUS": "OGG"}.get(extension, extension)
    if known not in soundfile.available_formats():
        raise RecordingError(f"cannot write '{path}': the extension must be wav, flac, ogg or mp3")
    try:
        return soundfile.SoundFile(path, "w", sample_rate_hz, 1, format=known)
    except (OSError, soundfile.LibsndfileError) as error:
        raise RecordingError(f"cannot write '{path}': {error}") from error
