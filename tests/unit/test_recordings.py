"""Recordings of voices: read in every format, refused with a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile

from fakes.recordings import record
from fakes.script import tone
from gateway.audio.reference import UnfitReferenceError, read_reference

if TYPE_CHECKING:
    from pathlib import Path

RATE_HZ = 16_000
TOLERANCE = {"wav": 1e-3, "flac": 1e-3, "ogg": 0.03, "mp3": 0.03}


@pytest.mark.parametrize("extension", TOLERANCE)
@pytest.mark.parametrize("rate_hz", [16_000, 24_000, 44_100])
def test_every_format_and_rate_is_16_khz_mono(tmp_path: Path, extension: str, rate_hz: int) -> None:
    path = record(tmp_path / f"voice.{extension}", 2.0, rate_hz)

    samples = read_reference(path)

    middle = slice(RATE_HZ // 2, -RATE_HZ // 2)
    assert samples.dtype == np.float32
    assert samples.shape == (2 * RATE_HZ,)
    assert np.abs(samples - tone(2 * RATE_HZ, RATE_HZ))[middle].max() < TOLERANCE[extension]


def test_the_first_channel_is_taken_and_none_is_mixed_in(tmp_path: Path) -> None:
    path = record(tmp_path / "stereo.wav", silent_channels=1)

    assert np.array_equal(read_reference(path), tone(2 * RATE_HZ, RATE_HZ))


def test_what_16_khz_cannot_hold_is_filtered_out(tmp_path: Path) -> None:
    path = tmp_path / "high.wav"
    at_seconds = np.arange(2 * 48_000) / 48_000
    mixed = 0.5 * np.sin(2 * np.pi * 440 * at_seconds) + 0.4 * np.sin(2 * np.pi * 9000 * at_seconds)
    soundfile.write(path, mixed, 48_000, subtype="FLOAT")

    samples = read_reference(path)

    assert np.abs(samples - tone(2 * RATE_HZ, RATE_HZ))[4000:-4000].max() < 1e-3


def write(path: Path, samples: np.ndarray) -> Path:
    soundfile.write(path, samples, RATE_HZ, subtype="FLOAT")
    return path


@pytest.mark.parametrize("seconds", [1.0, 30.0])
def test_the_shortest_and_the_longest_are_taken(tmp_path: Path, seconds: float) -> None:
    assert len(read_reference(record(tmp_path / "voice.wav", seconds))) == seconds * RATE_HZ


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.99, "0.99 s; 1 to 30 s"), (30.01, "30.01 s; 1 to 30 s")]
)
def test_what_is_too_short_or_too_long_is_refused(
    tmp_path: Path, seconds: float, words: str
) -> None:
    with pytest.raises(UnfitReferenceError, match=words):
        read_reference(record(tmp_path / "voice.wav", seconds))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_samples_that_are_no_numbers_are_refused(tmp_path: Path, wrong: float) -> None:
    samples = tone(2 * RATE_HZ, RATE_HZ)
    samples[1000] = wrong

    with pytest.raises(UnfitReferenceError, match="no numbers"):
        read_reference(write(tmp_path / "voice.wav", samples))


def test_silence_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnfitReferenceError, match="silent in its first channel"):
        read_reference(write(tmp_path / "voice.wav", np.full(2 * RATE_HZ, 0.0029, np.float32)))


def test_what_is_no_file_or_no_audio_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("no audio", "utf-8")

    with pytest.raises(UnfitReferenceError, match="wav, flac, ogg or mp3: no such file"):
        read_reference(tmp_path / "none.wav")
    with pytest.raises(UnfitReferenceError, match="no such file"):
        read_reference(tmp_path)
    with pytest.raises(
        UnfitReferenceError, match=r"wav, flac, ogg or mp3: .*Format not recognised"
    ):
        read_reference(tmp_path / "text.wav")
