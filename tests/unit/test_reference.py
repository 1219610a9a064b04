from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from speech_backend.reference import BadReferenceError, check, even_volume, prepare, voice_clip

if TYPE_CHECKING:
    import numpy.typing as npt

RATE = 16_000


def tone(hz: float, seconds: float, rate: int = RATE, peak: float = 0.5) -> npt.NDArray[np.float32]:
    time = np.arange(int(seconds * rate)) / rate
    return (peak * np.sin(2 * np.pi * hz * time)).astype(np.float32)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros(0), "is empty"),
        (np.ones(100), r"is 0\.01 s long; 0\.5 to 60 s are possible"),
        (tone(100, 0.49), r"is 0\.49 s long"),
        (tone(100, 60.1), r"is 60\.10 s long"),
        (np.append(tone(100, 1.0), np.nan), "samples that are no numbers"),
        (np.append(tone(100, 1.0), -np.inf), "samples that are no numbers"),
        (np.zeros(RATE), r"is silent: its loudest sample is 0\.00000 of full scale"),
        (tone(100, 1.0, peak=0.0009), "is silent"),
        (tone(100, 1.0)[None], "has 2 axes instead of one"),
    ],
)
def test_a_bad_recording_is_an_error_for_its_sender(
    samples: npt.NDArray[np.float32], message: str
) -> None:
    with pytest.raises(BadReferenceError, match=message):
        check(samples.astype(np.float32))


@pytest.mark.parametrize("seconds", [0.5, 60.0])
@pytest.mark.parametrize("peak", [0.0011, 1.0, 40_000.0])
def test_a_usable_recording_passes(seconds: float, peak: float) -> None:
    check(tone(100, seconds, peak=peak))


def test_the_first_channel_is_taken_as_it_is() -> None:
    left, right = tone(100, 1.0), tone(300, 1.0)

    prepared = prepare(np.stack([left, right], axis=1).ravel(), RATE, channels=2)

    np.testing.assert_array_equal(prepared, left)
    assert prepared.dtype == np.float32


@pytest.mark.parametrize("rate", [8_000, 24_000, 44_100, 48_000])
def test_another_rate_becomes_16_khz(rate: int) -> None:
    prepared = prepare(tone(440, 1.0, rate), rate)

    assert len(prepared) == RATE
    middle = slice(RATE // 4, -RATE // 4)
    assert np.abs(prepared[middle] - tone(440, 1.0)[middle]).max() < 1e-4


def test_what_16_khz_cannot_hold_is_filtered_out() -> None:
    prepared = prepare(tone(11_000, 1.0, 48_000), 48_000)

    assert np.abs(prepared[RATE // 4 : -RATE // 4]).max() < 1e-4


@pytest.mark.parametrize(
    ("samples", "rate", "channels", "message"),
    [
        (tone(100, 1.0), 0, 1, "has 0 samples a second; 4000 to 192000 are possible"),
        (tone(100, 1.0), 1_000_000, 1, "has 1000000 samples a second"),
        (tone(100, 1.0)[1:], RATE, 2, "15999 samples are not those of 2 channels"),
        (tone(100, 1.0), RATE, 0, "16000 samples are not those of 0 channels"),
        (np.zeros((10, 2)), RATE, 2, "20 samples are not those of 2 channels"),
    ],
)
def test_a_format_that_is_none_is_an_error(
    samples: npt.NDArray[np.float32], rate: int, channels: int, message: str
) -> None:
    with pytest.raises(BadReferenceError, match=message):
        prepare(samples, rate, channels)


def volume(samples: npt.NDArray[np.float32]) -> float:
    audible = np.sort(np.abs(samples[np.abs(samples) > 0.01]))
    return float(audible[int(0.9 * len(audible)) : int(0.99 * len(audible))].mean())


@pytest.mark.parametrize("peak", [0.12, 0.19, 0.9, 1.9])
def test_recordings_become_equally_loud(peak: float) -> None:
    even = even_volume(tone(100, 1.0, peak=peak))

    assert even.dtype == np.float32
    assert volume(even) == pytest.approx(0.2, rel=1e-3)


def test_a_recording_below_a_peak_of_a_tenth_is_raised_twice() -> None:
    """The model was trained on that."""
    assert volume(even_volume(tone(100, 1.0, peak=0.05))) == pytest.approx(0.4, rel=1e-2)


def square(level: float, peak: float) -> npt.NDArray[np.float32]:
    """Make a square wave whose first few samples are louder."""
    samples = np.where(tone(100, 1.0) < 0, -level, level)
    samples[:5] = peak
    return samples.astype(np.float32)


def test_no_gain_is_above_ten_or_below_a_tenth() -> None:
    assert abs(even_volume(square(0.012, peak=0.1))[-1]) == pytest.approx(0.12)
    assert abs(even_volume(square(5.0, peak=5.0))[-1]) == pytest.approx(0.5)


def test_nothing_is_louder_than_full_scale() -> None:
    samples = tone(100, 1.0, peak=0.05)
    samples[100] = 1.0

    assert np.abs(even_volume(samples)).max() == 1.0


def test_what_has_hardly_an_audible_sample_is_only_raised_to_a_peak() -> None:
    samples = np.zeros(RATE, dtype=np.float32)
    samples[:5] = 0.05

    assert np.abs(even_volume(samples)).max() == pytest.approx(0.1)


def test_the_voice_is_of_six_seconds() -> None:
    clip = np.arange(40_000, dtype=np.float32)

    repeated = voice_clip(clip)

    assert len(repeated) == 96_000
    np.testing.assert_array_equal(repeated[40_000:80_000], clip)
    np.testing.assert_array_equal(repeated[80_000:], clip[:16_000])
    np.testing.assert_array_equal(voice_clip(np.tile(clip, 3)), np.tile(clip, 3)[:96_000])
