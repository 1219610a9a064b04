from __future__ import annotations

import gc
import logging

import av
import numpy as np
import pytest

from fakes.decoding import decode
from fakes.triton import tone
from gateway.audio.compressed import CODECS, CompressedEncoder

EVERY = pytest.mark.parametrize("name", list(CODECS))
DELAY_SAMPLES = {"mp3": 1105 + 2 * 576, "opus": 0, "aac": 1024 + 1024, "flac": 0}
"""What a decoder gives more than was put in: the codec's delay and the padding of its frames."""
MAGIC = {"mp3": b"\xff\xf3", "opus": b"OggS", "aac": b"\xff\xf1", "flac": b"fLaC"}


def encode(name: str, samples: np.ndarray, size: int) -> bytes:
    encoder = CompressedEncoder(name, 24_000)
    packets = [encoder.encode(samples[at : at + size]) for at in range(0, len(samples), size)]
    return b"".join(packets) + encoder.flush()


@EVERY
@pytest.mark.parametrize(
    "samples", [240, 2399, 72_001, 1_440_000], ids=["10ms", "100ms", "3s", "60s"]
)
def test_what_is_decoded_is_as_long_as_what_was_said(name: str, samples: int) -> None:
    decoded = decode(encode(name, tone(samples), 12_000))

    assert 0 <= len(decoded) - samples <= DELAY_SAMPLES[name]


@EVERY
@pytest.mark.parametrize("size", [1, 480, 4801])
def test_the_same_sound_cut_differently_is_the_same_audio(name: str, size: int) -> None:
    whole = tone(9600)

    assert (decode(encode(name, whole, size)) == decode(encode(name, whole, 9600))).all()


@EVERY
def test_the_first_sound_comes_within_150_ms_of_pcm(name: str) -> None:
    encoder = CompressedEncoder(name, 24_000)

    sent = b"".join(encoder.encode(tone(480, start=at)) for at in range(0, 3600, 480))

    assert len(decode(sent)) > 0


@EVERY
def test_a_tone_stays_that_tone(name: str) -> None:
    spectrum = np.abs(np.fft.rfft(decode(encode(name, tone(24_000), 2400))[2400:21_600]))

    assert np.argmax(spectrum) * 24_000 / 19_200 == pytest.approx(440, abs=2)


@EVERY
def test_the_stream_is_one_stream_that_ffmpeg_reads_without_a_warning(name: str) -> None:
    data = encode(name, tone(24_000), 2400)

    gc.collect()  # An encoder that another test gave up complains when it is collected.
    av.logging.set_level(av.logging.WARNING)
    with av.logging.Capture() as complaints:
        decode(data)

    av.logging.set_level(None)
    assert data.startswith(MAGIC[name])
    # A stream does not say how long it is.
    assert [words for *_, words in complaints if "Estimating duration" not in words] == []
    assert data.count(b"fLaC") + data.count(b"OpusHead") == (name in ("flac", "opus"))
    assert b"Xing" not in data
    assert b"ID3" not in data


@EVERY
def test_what_is_no_number_is_silence(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        decoded = decode(encode(name, np.full(4800, np.nan, np.float32), 480))

    assert np.abs(decoded).max() <= 1
