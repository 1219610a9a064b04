"""An independent look at encoded audio: FFmpeg's decoders."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import av
import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


RATE_HZ = 24_000


def decode(data: bytes, audio_format: str = "") -> npt.NDArray[np.int16]:
    """Return the samples in a file, mono at RATE_HZ; only pcm has to be named."""
    if audio_format == "pcm":
        return np.frombuffer(data, "<i2")
    resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE_HZ)
    pieces = []
    with av.open(io.BytesIO(data)) as container:
        for frame in [*container.decode(audio=0), None]:
            pieces += [piece.to_ndarray()[0] for piece in resampler.resample(frame)]
    return np.concatenate(pieces)
