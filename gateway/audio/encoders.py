"""Audio formats: each turns float32 chunks into bytes as they come."""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Protocol

from gateway.audio.compressed import CODECS, CompressedEncoder
from gateway.audio.pcm import to_s16le

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

UNKNOWN_SIZE = 0xFFFFFFFF
"""The sizes of a WAV whose end is not known when its header is sent, as OpenAI sends them."""

WAV_HEADER_BYTES = 44


class AudioEncoder(Protocol):
    """Encodes one utterance: `encode` for each chunk, `flush` once at the end."""

    sample_rate_hz: int

    @property
    def media_type(self) -> str:
        """The Content-Type of what comes out."""

    @property
    def is_heavy(self) -> bool:
        """Whether encoding takes so long that it belongs in a thread."""

    def encode(self, samples: npt.NDArray[np.float32]) -> bytes:
        """Return the bytes that are ready after these samples, mono at `sample_rate_hz`."""

    def flush(self) -> bytes:
        """Return the last bytes."""


class PcmEncoder:
    """Headerless 16-bit little-endian mono."""

    media_type: ClassVar[str] = "audio/pcm"
    is_heavy: ClassVar[bool] = False

    def __init__(self, sample_rate_hz: int) -> None:
        self.sample_rate_hz = sample_rate_hz

    def encode(self, samples: npt.NDArray[np.float32]) -> bytes:
        """Return the samples as bytes."""
        return to_s16le(samples)

    def flush(self) -> bytes:
        """Return nothing: no sample is held back."""
        return b""


class WavEncoder:
    """16-bit mono WAV whose header comes with the first audio and says "size unknown"."""

    media_type: ClassVar[str] = "audio/wav"
    is_heavy: ClassVar[bool] = False

    def __init__(self, sample_rate_hz: int) -> None:
        self.sample_rate_hz = sample_rate_hz
        self._header = wav_header(sample_rate_hz)

    def encode(self, samples: npt.NDArray[np.float32]) -> bytes:
        """Return the samples as bytes, the header before the first."""
        header, self._header = self._header, b""
        return header + to_s16le(samples)

    def flush(self) -> bytes:
        """Return nothing: no sample is held back."""
        return b""


def wav_header(sample_rate_hz: int, data_bytes: int | None = None) -> bytes:
    """Return the 44 bytes before 16-bit mono PCM; its sizes say "unknown" without a length."""
    riff_size, data_size = UNKNOWN_SIZE, UNKNOWN_SIZE
    if data_bytes is not None:
        riff_size, data_size = data_bytes + WAV_HEADER_BYTES - 8, data_bytes
    riff = struct.pack("<4sI4s", b"RIFF", riff_size, b"WAVE")
    # Fields of "fmt ": its size, PCM, channels, rate, bytes a second, bytes a frame, bits.
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, sample_rate_hz, sample_rate_hz * 2, 2, 16)
    return riff + fmt + struct.pack("<4sI", b"data", data_size)


def with_true_sizes(wav: bytes, sample_rate_hz: int) -> bytes:
    """Return a whole streamed WAV with the sizes that are now known."""
    data = wav[WAV_HEADER_BYTES:]
    return wav_header(sample_rate_hz, len(data)) + data


ENCODERS: dict[str, Callable[[int], AudioEncoder]] = {
    **{name: partial(CompressedEncoder, name) for name in CODECS},
    "wav": WavEncoder,
    "pcm": PcmEncoder,
}
UNCOMPRESSED = frozenset({"wav", "pcm"})
"""The formats that take any sample rate; the codecs know only some."""
MEDIA_TYPES = (
    *(codec.media_type for codec in CODECS.values()),
    WavEncoder.media_type,
    PcmEncoder.media_type,
)
