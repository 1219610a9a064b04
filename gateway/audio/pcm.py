"""Samples: float32 to 16-bit, and from one rate to another without seams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import soxr

if TYPE_CHECKING:
    import numpy.typing as npt


def to_s16le(samples: npt.NDArray[np.float32]) -> bytes:
    """Return little-endian 16-bit PCM; beyond ±1 is clipped, NaN and infinities are silence."""
    # Nearly every chunk is within ±1 and needs no more than this look; NaN fails it too.
    if not peak(samples) <= 1.0:
        samples = np.clip(finite(samples), -1.0, 1.0)
    scaled = samples * np.float32(32767.0)
    pcm: npt.NDArray[np.int16] = np.rint(scaled, out=scaled).astype("<i2")
    return pcm.tobytes()


def peak(samples: npt.NDArray[np.float32]) -> float:
    """Return the greatest magnitude of a sample, 0 without one; NaN where one is NaN."""
    return float(max(samples.max(initial=0.0), -samples.min(initial=0.0)))


class Resampler:
    """Takes float32 chunks at one rate, gives them at another, as if they were one piece.

    Equal rates pass through untouched. soxr holds back some 38 ms, which `flush` returns.
    """

    def __init__(self, from_hz: int, to_hz: int) -> None:
        self._stream = None
        if from_hz != to_hz:
            self._stream = soxr.ResampleStream(from_hz, to_hz, 1, dtype="float32")

    def push(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return what is ready after these samples."""
        if self._stream is None:
            return samples
        resampled: npt.NDArray[np.float32] = self._stream.resample_chunk(finite(samples))
        return resampled

    def flush(self) -> npt.NDArray[np.float32]:
        """Return what was held back; call it once, at the end."""
        nothing = np.zeros(0, np.float32)
        if self._stream is None:
            return nothing
        rest: npt.NDArray[np.float32] = self._stream.resample_chunk(nothing, last=True)
        return rest


def finite(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the samples with silence for NaN and infinities: one would stay in a filter."""
    return np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0)
