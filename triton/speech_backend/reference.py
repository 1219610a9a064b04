"""A reference recording before the tokenizer hears it: checked, mono, 16 kHz, of even volume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import soxr

from speech_backend.serving import InvalidInputError

if TYPE_CHECKING:
    import numpy.typing as npt

SAMPLE_RATE_HZ = 16_000
SHORTEST_SECONDS = 0.5
LONGEST_SECONDS = 60.0
SAMPLE_RATES_HZ = (4_000, 192_000)

# -60 dBFS: quieter than this, a recording is its own noise.
SILENCE_PEAK = 1e-3

# Spark-TTS was trained on recordings made equally loud in this way.
QUIET_PEAK = 0.1
AUDIBLE = 0.01
FEW_SAMPLES = 10
TARGET_VOLUME = 0.2
GAINS = (0.1, 10.0)

# The voice is taken of this much, config.yaml's `ref_segment_duration`.
VOICE_SAMPLES = 6 * SAMPLE_RATE_HZ


class BadReferenceError(InvalidInputError):
    """A recording that no voice can be made of; the message is for the one who sent it."""


def prepare(
    samples: npt.NDArray[np.floating[Any]], sample_rate_hz: int, channels: int = 1
) -> npt.NDArray[np.float32]:
    """Return the first channel of interleaved samples at 16 kHz.

    Raises BadReferenceError for what cannot be resampled; `check` looks at the rest.
    """
    lowest, highest = SAMPLE_RATES_HZ
    if not lowest <= sample_rate_hz <= highest:
        raise BadReferenceError(
            f"the reference recording has {sample_rate_hz} samples a second; "
            f"{lowest} to {highest} are possible"
        )
    if channels < 1 or samples.ndim != 1 or len(samples) % channels:
        raise BadReferenceError(
            f"the reference recording's {samples.size} samples are not those of {channels} channels"
        )
    # In double precision, as upstream does it: the tokens come out the same.
    first = samples[::channels].astype(np.float64)
    if sample_rate_hz != SAMPLE_RATE_HZ:
        first = soxr.resample(first, sample_rate_hz, SAMPLE_RATE_HZ, quality="VHQ")
    return first.astype(np.float32)


def check(samples: npt.NDArray[np.float32]) -> None:
    """Raise BadReferenceError unless these are usable samples at 16 kHz, mono."""
    if samples.ndim != 1:
        raise BadReferenceError(f"the reference recording has {samples.ndim} axes instead of one")
    seconds = len(samples) / SAMPLE_RATE_HZ
    if len(samples) == 0:
        raise BadReferenceError("the reference recording is empty")
    if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
        raise BadReferenceError(
            f"the reference recording is {seconds:.2f} s long; {SHORTEST_SECONDS} to "
            f"{LONGEST_SECONDS:.0f} s are possible, 5 to 10 s of clear speech are best"
        )
    if not np.isfinite(samples).all():
        raise BadReferenceError("the reference recording has samples that are no numbers")
    peak = float(np.abs(samples).max())
    if peak < SILENCE_PEAK:
        raise BadReferenceError(
            f"the reference recording is silent: its loudest sample is {peak:.5f} of full scale, "
            f"at least {SILENCE_PEAK} is needed"
        )


def even_volume(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return samples as loud as those that the model learnt from, none beyond full scale.

    A quiet recording is raised to a peak of 0.1. The volume is the mean of the loudest tenth of
    what is audible, without its loudest hundredth; it is brought to 0.2, by a gain of 0.1 to 10.
    As upstream does it, the volume is measured before the first raise and applied after it.
    """
    exact = samples.astype(np.float64)
    loudness = np.sort(np.abs(exact))
    if loudness[-1] < QUIET_PEAK:
        exact *= QUIET_PEAK / max(loudness[-1], SILENCE_PEAK)
    audible = loudness[loudness > AUDIBLE]
    if len(audible) > FEW_SAMPLES:
        volume = audible[int(0.9 * len(audible)) : int(0.99 * len(audible))].mean()
        exact *= np.clip(TARGET_VOLUME / volume, *GAINS)
        exact /= max(1.0, np.abs(exact).max())
    return exact.astype(np.float32)


def voice_clip(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the first 6 s, repeated where there are fewer."""
    return np.resize(samples, VOICE_SAMPLES)
