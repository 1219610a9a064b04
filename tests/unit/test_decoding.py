"""What is decoded piece by piece is what FFmpeg finds in the whole, and no later than it came."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile

from fakes.decoding import RATE_HZ
from fakes.triton import tone
from gateway.audio.compressed import CODECS, CompressedEncoder
from gateway.audio.decoding import DecodingError, FlacDecoder, open_decoder
from gateway.audio.riff import PcmLayout

LAYOUT = PcmLayout(RATE_HZ)
COMPRESSED = pytest.mark.parametrize("name", list(CODECS))


def speech(seconds: float = 3.0) -> np.ndarray:
    noise = np.random.default_rng(1).standard_normal(round(seconds * RATE_HZ)) * 0.02
    return tone(len(noise)) + noise.astype(np.float32)


def wav(samples: np.ndarray, subtype: str = "PCM_16") -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, RATE_HZ, subtype, format="WAV")
    return file.getvalue()


def pieces(name: str, samples: np.ndarray, size: int = 2400) -> list[bytes]:
    encoder = CompressedEncoder(name, RATE_HZ)
    packets = [encoder.encode(samples[at : at + size]) for at in range(0, len(samples), size)]
    return [*packets, encoder.flush()]


def decoded(name: str, data: list[bytes]) -> tuple[np.ndarray, int]:
    decoder = open_decoder(name, LAYOUT)
    parts = [decoder.push(piece) for piece in data]
    return np.concatenate([*parts, decoder.flush()]), decoder.sample_rate_hz


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@COMPRESSED
@pytest.mark.parametrize("size", [1, 7, 1500, 10**9])
def test_bytes_cut_anywhere_give_all_of_the_sound(name: str, size: int) -> None:
    samples = speech(1.0)

    heard, rate_hz = decoded(name, cut(b"".join(pieces(name, samples)), size))

    seconds = len(heard) / rate_hz
    assert 1.0 <= seconds <= 1.1
    assert np.sqrt(np.mean(heard**2)) == pytest.approx(np.sqrt(np.mean(samples**2)), rel=0.1)


@COMPRESSED
def test_sound_is_decoded_with_the_piece_that_completes_it(name: str) -> None:
    """A frame is 192 ms in flac and less in the others; a container reader would wait for more."""
    decoder, seconds = open_decoder(name, LAYOUT), []
    for piece in pieces(name, speech()):
        samples = decoder.push(piece)
        before = seconds[-1] if seconds else 0.0
        seconds.append(before + len(samples) / (decoder.sample_rate_hz or 1))

    pushed = np.arange(1, len(seconds)) * 0.1
    assert (pushed - seconds[:-1] < 0.2).all()


def test_flac_loses_not_one_sample() -> None:
    samples = speech()

    heard, _ = decoded("flac", pieces("flac", samples))

    assert np.abs(heard - samples).max() < 2 / 32768


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_32", "FLOAT"])
@pytest.mark.parametrize("size", [1, 1000])
def test_a_wav_is_its_samples(subtype: str, size: int) -> None:
    samples = speech(0.5)

    heard, rate_hz = decoded("wav", cut(wav(samples, subtype), size))

    assert rate_hz == RATE_HZ
    assert np.abs(heard - samples).max() < 2 / 32768


def test_of_two_channels_the_first_is_heard() -> None:
    samples = speech(0.1)

    heard, _ = decoded("wav", [wav(np.stack([samples, -samples], axis=1))])

    assert np.abs(heard - samples).max() < 2 / 32768


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff", b"\0\0\0\0"])
def test_a_wav_that_does_not_know_its_length_goes_on_to_the_end(size: bytes) -> None:
    data = wav(speech(0.5))

    heard, _ = decoded("wav", [data[:40] + size, data[44:]])

    assert len(heard) == RATE_HZ // 2


def test_what_stands_before_and_behind_the_sound_is_no_sound() -> None:
    data = wav(speech(0.5))
    extra = b"LIST\x03\0\0\0abc\0"

    heard, _ = decoded("wav", cut(data[:12] + extra + data[12:] + extra, 5))

    assert len(heard) == RATE_HZ // 2


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("wav", b"<html>500 Internal", "this is no WAV"),
        ("wav", wav(speech(0.1))[:30], "ends before its sound"),
        ("wav", wav(speech(0.1))[:-20], "promises 20 bytes more"),
        ("wav", wav(speech(0.1), "PCM_24"), "kind 1 with 24 bits"),
        ("pcm", b"\0\0\0", "no whole sample"),
        ("flac", b'{"error": 1}', "this is no FLAC"),
        ("flac", b"".join(pieces("flac", speech(0.5)))[:-5], "no whole FLAC frame"),
        ("opus", b"x" * 40, "this is no Ogg"),
        ("opus", b"".join(pieces("opus", speech(0.5)))[:-5], "ends within a page"),
        ("ogg", b"", "'ogg' is not known"),
    ],
)
def test_what_is_no_such_audio_is_an_error(name: str, data: bytes, words: str) -> None:
    with pytest.raises(DecodingError, match=words):
        decoded(name, [data])


def test_flac_frames_cut_before_their_last_byte_are_whole_with_it() -> None:
    """Some checksums end in zero, and beyond the end FFmpeg reads zeros."""
    samples = speech(60.0)
    data = pieces("flac", samples)
    assert any(piece.endswith(b"\0") for piece in data)

    heard, _ = decoded("flac", [part for piece in data for part in (piece[:-1], piece[-1:])])

    assert len(heard) == len(samples)


def test_flac_frames_that_look_like_two_are_one() -> None:
    """Noise at full scale holds bytes that look like the beginning of a frame."""
    loud = np.random.default_rng(2).uniform(-1, 1, 10 * RATE_HZ).astype(np.float32)
    data = b"".join(pieces("flac", loud))
    assert data.count(b"\xff\xf8") > 10 * RATE_HZ // 4608 + 2

    decoder = FlacDecoder()

    assert len(decoder.push(data)) == len(loud)
