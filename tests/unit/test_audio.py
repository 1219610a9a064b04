"""Samples and their encodings: the same PCM cut differently is the same audio."""

from __future__ import annotations

import io
import wave
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.script import tone
from gateway.audio.encoders import ENCODERS, wav_header
from gateway.audio.pcm import Resampler, to_s16le
from gateway.audio.recording import Recording, RecordingError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

SECOND = tone(24_000)


def pieces(samples: npt.NDArray[np.float32], size: int) -> list[npt.NDArray[np.float32]]:
    """Cut samples into pieces of `size`; the last one may be shorter."""
    return [samples[at : at + size] for at in range(0, len(samples), size)]


def encoded(audio_format: str, chunks: Sequence[npt.NDArray[np.float32]]) -> bytes:
    """Return the whole file that an encoder makes of the chunks."""
    encoder = ENCODERS[audio_format](24_000)
    return b"".join([*(encoder.encode(chunk) for chunk in chunks), encoder.flush()])


def resampled(
    chunks: Sequence[npt.NDArray[np.float32]], from_hz: int, to_hz: int
) -> npt.NDArray[np.float32]:
    """Return all that a Resampler makes of the chunks."""
    resampler = Resampler(from_hz, to_hz)
    return np.concatenate([*(resampler.push(chunk) for chunk in chunks), resampler.flush()])


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (0.0, 0),
        (1.0, 32767),
        (-1.0, -32767),
        (1.5, 32767),
        (-1.5, -32767),
        (0.5, 16384),
        (np.nan, 0),
        (np.inf, 0),
        (-np.inf, 0),
    ],
)
def test_a_sample_in_16_bits(sample: float, expected: int) -> None:
    assert np.frombuffer(to_s16le(np.array([sample], np.float32)), "<i2").tolist() == [expected]


@given(st.lists(st.floats(width=32)))
def test_16_bits_are_never_off_by_more_than_rounding(samples: list[float]) -> None:
    given_ = np.array(samples, np.float32)

    back = np.frombuffer(to_s16le(given_), "<i2") / 32767

    wanted = np.clip(np.where(np.isfinite(given_), given_, 0), -1, 1)
    assert np.abs(back - wanted).max(initial=0) <= 0.5 / 32767 + 1e-7


def test_the_input_is_left_as_it_was() -> None:
    samples = np.array([np.nan, 2.0, 0.1], np.float32)

    to_s16le(samples)

    np.testing.assert_array_equal(samples, np.array([np.nan, 2.0, 0.1], np.float32))


@pytest.mark.parametrize("size", [1, 7, 4800])
@pytest.mark.parametrize("audio_format", sorted(ENCODERS.keys() - {"opus"}))
def test_cutting_the_pcm_differently_changes_no_byte(audio_format: str, size: int) -> None:
    """Ogg, with its random serial numbers and pages, is compared by sound in test_compressed."""
    assert encoded(audio_format, pieces(SECOND, size)) == encoded(audio_format, [SECOND])


def test_a_wav_of_unknown_size_is_read_by_those_who_ignore_sizes() -> None:
    file = encoded("wav", [SECOND])

    with wave.open(io.BytesIO(file)) as reader:
        assert (reader.getframerate(), reader.getnchannels(), reader.getsampwidth()) == (
            24_000,
            1,
            2,
        )
    assert file[:44] == wav_header(24_000)
    assert len(file) == 44 + 2 * len(SECOND)


@pytest.mark.parametrize("size", [1, 7, 160, 4800])
@pytest.mark.parametrize(("from_hz", "to_hz"), [(16_000, 24_000), (48_000, 24_000)])
def test_cutting_the_pcm_differently_changes_no_resampled_sample(
    from_hz: int, to_hz: int, size: int
) -> None:
    whole = tone(4800, from_hz)

    cut = resampled(pieces(whole, size), from_hz, to_hz)

    np.testing.assert_allclose(cut, resampled([whole], from_hz, to_hz), atol=1e-6)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 3000), max_size=8))
def test_resampling_keeps_the_exact_length(sizes: list[int]) -> None:
    chunks = [np.zeros(size, np.float32) for size in sizes]

    got = resampled(chunks, 16_000, 24_000)

    assert len(got) == (3 * sum(sizes) + 1) // 2


def test_a_resampled_sine_is_the_same_sine() -> None:
    got = resampled([tone(16_000, 16_000)], 16_000, 24_000)

    np.testing.assert_allclose(got[500:-500], SECOND[500:-500], atol=1e-3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_bad_sample_silences_no_more_than_a_few_around_it(bad: float) -> None:
    broken = tone(16_000, 16_000)
    broken[8009] = bad

    off = np.abs(resampled([broken], 16_000, 24_000) - SECOND)

    assert np.isfinite(off).all()
    assert off[500:11_900].max() < 0.01
    assert off[12_100:-500].max() < 0.01


def test_equal_rates_touch_nothing() -> None:
    samples = np.array([np.nan, 2.0], np.float32)

    assert Resampler(24_000, 24_000).push(samples) is samples


@pytest.mark.parametrize("extension", ["wav", "flac", "WAV"])
def test_a_recording_is_read_back_as_it_was(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"speech.{extension}"

    with closing(Recording(path, 24_000)) as file:
        for piece in pieces(SECOND, 4800):
            file.write(to_s16le(piece))

    samples, rate = soundfile.read(path, dtype="int16")
    assert rate == 24_000
    assert samples.astype("<i2").tobytes() == to_s16le(SECOND)


@pytest.mark.parametrize("size", [1, 3, 4801])
def test_a_recording_takes_bytes_that_are_cut_anywhere(tmp_path: Path, size: int) -> None:
    path, data = tmp_path / "speech.wav", to_s16le(SECOND)

    with closing(Recording(path, 24_000)) as file:
        for start in range(0, len(data), size):
            file.write(data[start : start + size])

    samples, _ = soundfile.read(path, dtype="int16")
    assert samples.astype("<i2").tobytes() == data
    assert file.seconds == len(SECOND) / 24_000


@pytest.mark.parametrize("extension", ["ogg", "mp3", "opus"])
def test_a_lossy_recording_is_as_long(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"speech.{extension}"

    with closing(Recording(path, 24_000)) as file:
        file.write(to_s16le(SECOND))

    samples, rate = soundfile.read(path)
    assert len(samples) / rate == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("name", ["speech.xyz", "speech", ".wav"])
def test_an_unknown_extension_is_refused_with_those_there_are(tmp_path: Path, name: str) -> None:
    with pytest.raises(RecordingError, match=r"must be .wav, .flac, .ogg, .opus, .mp3"):
        Recording(tmp_path / name, 24_000)

    assert not (tmp_path / name).exists()


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"cannot write .*nowhere"):
        Recording(tmp_path / "nowhere" / "speech.wav", 24_000)
