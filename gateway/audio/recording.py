"""Writes received PCM into a file whose extension names the format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import soundfile

if TYPE_CHECKING:
    from pathlib import Path


class RecordingError(Exception):
    """The file cannot be written as asked."""


BYTES_PER_SAMPLE = 2
FORMATS = {
    ".wav": ("WAV", "PCM_16"),
    ".flac": ("FLAC", "PCM_16"),
    ".ogg": ("OGG", "OPUS"),
    ".opus": ("OGG", "OPUS"),
    ".mp3": ("MP3", "MPEG_LAYER_III"),
}


class Recording:
    """A mono file of the PCM that comes; its header is right once it is closed."""

    def __init__(self, path: Path, sample_rate_hz: int) -> None:
        if path.suffix.lower() not in FORMATS:
            known = ", ".join(FORMATS)
            raise RecordingError(f"cannot write '{path}': the extension must be {known}")
        kind, subtype = FORMATS[path.suffix.lower()]
        try:
            self._file = soundfile.SoundFile(path, "w", sample_rate_hz, 1, subtype, format=kind)
        except (OSError, soundfile.LibsndfileError) as error:
            reason = "no such folder" if not path.parent.is_dir() else error
            raise RecordingError(f"cannot write '{path}': {reason}") from error
        self._odd = b""
        self._samples = 0

    @property
    def seconds(self) -> float:
        """How much has been written."""
        return float(self._samples / self._file.samplerate)

    def write(self, data: bytes) -> None:
        """Add 16-bit little-endian PCM, cut anywhere: half a sample waits for the other."""
        data = self._odd + data
        whole = len(data) - len(data) % BYTES_PER_SAMPLE
        self._file.buffer_write(data[:whole], "int16")
        self._odd = data[whole:]
        self._samples += whole // BYTES_PER_SAMPLE

    def close(self) -> None:
        """Complete the header."""
        self._file.close()
