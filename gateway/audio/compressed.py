"""The compressed formats, encoded by FFmpeg's libraries through PyAV as the samples come.

FFmpeg's muxers write into a sink that gives out what it got and cannot seek, so that nothing
that was sent would have to be changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, cast

import av
import numpy as np

from gateway.audio.pcm import to_s16le

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Codec:
    """A format as FFmpeg names its muxer and encoder, with their options."""

    media_type: str
    container: str
    encoder: str
    container_options: Mapping[str, str] = field(default_factory=dict)
    encoder_options: Mapping[str, str] = field(default_factory=dict)
    bit_rate: int | None = None


CODECS = {
    # No Xing frame and no ID3 tag: both would say how long a stream is that has no end yet. The
    # bit reservoir would hold 48 ms more back. LAME's quality 7 (of 0 to 9, usually 5) is a third
    # faster; on speech of 64 kbit/s mono its error is no greater.
    "mp3": Codec(
        "audio/mpeg",
        "mp3",
        "libmp3lame",
        {"write_xing": "0", "id3v2_version": "0"},
        {"reservoir": "0", "compression_level": "7"},
        bit_rate=64_000,
    ),
    # Ogg's default page holds a second of sound.
    "opus": Codec(
        "audio/ogg", "ogg", "libopus", {"page_duration": "20000"}, {"application": "voip"}, 48_000
    ),
    "aac": Codec("audio/aac", "adts", "aac", bit_rate=64_000),
    "flac": Codec("audio/flac", "flac", "flac"),
}


class _Sink:
    """A file that is only written to; what came is taken out again and again."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


class CompressedEncoder:
    """One stream of a format in CODECS: `encode` for each chunk, `flush` once at the end."""

    is_heavy: ClassVar[bool] = True

    def __init__(self, name: str, sample_rate_hz: int) -> None:
        codec = CODECS[name]
        self.media_type = codec.media_type
        self.sample_rate_hz = sample_rate_hz
        self._sink = _Sink()
        self._container = av.open(
            self._sink,
            "w",
            format=codec.container,
            options=dict(codec.container_options),
            container_options={"flush_packets": "1"},
        )
        stream = self._container.add_stream(
            codec.encoder, rate=sample_rate_hz, options=dict(codec.encoder_options)
        )
        self._stream = cast("av.AudioStream", stream)
        self._stream.layout = "mono"
        if codec.bit_rate is not None:
            self._stream.bit_rate = codec.bit_rate
        self._position = 0

    def encode(self, samples: npt.NDArray[np.float32]) -> bytes:
        """Return the bytes that are ready after these samples, mono at `sample_rate_hz`."""
        if len(samples):
            pcm = np.frombuffer(to_s16le(samples), np.int16).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(pcm, format="s16", layout="mono")
            frame.sample_rate = self.sample_rate_hz
            frame.time_base = Fraction(1, self.sample_rate_hz)
            frame.pts = self._position
            self._position += len(samples)
            self._container.mux(self._stream.encode(frame))
        return self._sink.take()

    def flush(self) -> bytes:
        """Return the last bytes, with the samples that the encoder held back."""
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._sink.take()
