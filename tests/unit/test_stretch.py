from __future__ import annotations

import numpy as np
import pytest

from fakes.triton import tone
from gateway.audio.stretch import Stretcher

SPEEDS = pytest.mark.parametrize("speed", [0.25, 0.3, 0.5, 0.8, 1.25, 1.5, 2.0, 3.0, 4.0])
SECONDS = 5


def stretch(samples: np.ndarray, speed: float, size: int = 2400) -> np.ndarray:
    stretcher = Stretcher(speed, 24_000)
    pieces = [stretcher.push(samples[at : at + size]) for at in range(0, len(samples), size)]
    return np.concatenate([*pieces, stretcher.flush()])


@SPEEDS
def test_the_length_is_right_within_5_percent(speed: float) -> None:
    heard = stretch(tone(24_000 * SECONDS), speed)

    assert len(heard) * speed / (24_000 * SECONDS) == pytest.approx(1, abs=0.05)


@SPEEDS
def test_the_pitch_stays(speed: float) -> None:
    heard = stretch(tone(24_000 * SECONDS), speed)[4800:24_000]

    spectrum = np.abs(np.fft.rfft(heard * np.hanning(len(heard))))
    assert np.argmax(spectrum) * 24_000 / len(heard) == pytest.approx(440, abs=4)


@SPEEDS
@pytest.mark.parametrize("size", [1, 479, 48_000])
def test_the_same_sound_cut_differently_sounds_the_same(speed: float, size: int) -> None:
    samples = tone(9600)

    np.testing.assert_array_equal(stretch(samples, speed, size), stretch(samples, speed, 9600))


def test_speed_1_changes_nothing() -> None:
    samples = tone(4800)

    assert Stretcher(1.0, 24_000).push(samples) is samples


def test_sound_comes_before_the_end() -> None:
    """Half a second is enough for the first of it to come out."""
    assert len(Stretcher(1.5, 24_000).push(tone(12_000))) > 0


def test_one_sample_that_is_no_number_does_not_silence_the_rest() -> None:
    samples = tone(24_000)
    samples[100] = np.nan

    heard = stretch(samples, 1.5)

    assert np.isfinite(heard).all()
    assert np.abs(heard[-4800:]).max() > 0.4


def test_nothing_in_is_nothing_out() -> None:
    assert len(stretch(np.zeros(0, np.float32), 2.0)) == 0
