"""The silence between two segments of one utterance, without a click at its ends."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

RAMP_SECONDS = 0.005
"""Speech has little below 100 Hz, half a period of which this is."""


def silence_between(
    last: float, first: float, seconds: float, rate_hz: int
) -> npt.NDArray[np.float32]:
    """Return `seconds` of silence that starts at the sample `last` and ends at `first`.

    It never lasts less than its two ramps, 10 ms, so no sample of either segment is changed
    and no step between samples is greater than a ramp's.
    """
    ramp_samples = round(RAMP_SECONDS * rate_hz)
    falling = np.cos(np.linspace(0.0, np.pi, ramp_samples, dtype=np.float32)) / 2 + 0.5
    between = np.zeros(max(round(seconds * rate_hz), 2 * ramp_samples), np.float32)
    between[:ramp_samples] = last * falling
    between[-ramp_samples:] = first * falling[::-1]
    return between
