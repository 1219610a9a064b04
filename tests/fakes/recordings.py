"""Recordings of nobody, for voices that are cloned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import soundfile

from fakes.script import tone

if TYPE_CHECKING:
    from pathlib import Path


def record(
    path: Path, seconds: float = 2.0, rate_hz: int = 16_000, *, silent_channels: int = 0
) -> Path:
    """Write a 440 Hz sine, in the first channel, in the format of the path's extension."""
    sine = tone(round(seconds * rate_hz), rate_hz)
    silence = np.zeros_like(sine)
    kind = {"subtype": "FLOAT"} if path.suffix == ".wav" else {}
    soundfile.write(path, np.stack([sine, *[silence] * silent_channels], axis=1), rate_hz, **kind)
    return path
