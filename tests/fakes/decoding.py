"""An independent look at encoded audio: FFmpeg's decoders."""

from __future__ import annotations

import io

import av
import numpy as np


def decode(data: bytes, rate_hz: int = 24_000) -> np.ndarray:
    """Return the samples in a file, int16 mono."""
    resampler = av.AudioResampler(format="s16", layout="mono", rate=rate_hz)
    pieces = []
    with av.open(io.BytesIO(data)) as container:
        for frame in [*container.decode(audio=0), None]:
            pieces += [piece.to_ndarray()[0] for piece in resampler.resample(frame)]
    return np.concatenate(pieces)
