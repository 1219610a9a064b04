"""Reads a recording of a voice as a model wants it: float32 mono at 16 kHz."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import soundfile
import soxr

if TYPE_CHECKING:
    import numpy.typing as npt

SAMPLE_RATE_HZ = 16_000
"""What Spark-TTS's tokenizer takes; a reference does not say its rate on the way."""
SHORTEST_SECONDS = 1.0
LONGEST_SECONDS = 30.0
"""Spark-TTS takes the voice from the first 6 s; with a transcript, each second is 50 tokens more
in the prompt of every segment."""
QUIETEST_PEAK = 0.003
"""-50 dBFS; speech peaks above -30."""


class UnfitReferenceError(ValueError):
    """The recording cannot be read, or makes no voice; the message says why and what fits."""


def read_reference(source: Path | BinaryIO) -> npt.NDArray[np.float32]:
    """Return the first channel of a wav, flac, ogg or mp3 file; raises UnfitReferenceError."""
    try:
        with soundfile.SoundFile(source) as file:
            rate_hz = file.samplerate
            _check_length(file.frames / rate_hz)
            samples = file.read(dtype="float32", always_2d=True)[:, 0]
    except (OSError, soundfile.LibsndfileError) as error:
        is_missing = isinstance(source, Path) and not source.is_file()
        reason = "no such file" if is_missing else str(error)
        message = f"cannot be read as wav, flac, ogg or mp3: {reason}"
        raise UnfitReferenceError(message) from error
    # A header may promise more than there is.
    _check_length(len(samples) / rate_hz)
    if not np.isfinite(samples).all():
        raise UnfitReferenceError("has samples that are no numbers (NaN or infinite)")
    if (peak := np.abs(samples).max()) < QUIETEST_PEAK:
        message = (
            f"is silent in its first channel: the peak is {peak:.4f}, {QUIETEST_PEAK} at least"
        )
        raise UnfitReferenceError(message)
    resampled: npt.NDArray[np.float32] = soxr.resample(samples, rate_hz, SAMPLE_RATE_HZ, "VHQ")
    return resampled


def _check_length(seconds: float) -> None:
    if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
        raise UnfitReferenceError(
            f"has {seconds:.2f} s; {SHORTEST_SECONDS:g} to {LONGEST_SECONDS:g} s are possible"
        )
