"""Plain samples, and the WAV header that says how they lie."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

PCM, IEEE_FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
DTYPES = {(PCM, 16): "<i2", (PCM, 32): "<i4", (IEEE_FLOAT, 32): "<f4"}
UNKNOWN_SIZES = (0, 0xFFFFFFFF)
"""What a stream says that does not know its length: FFmpeg and OpenAI the second, some 0."""
CHUNK_HEAD = 8
RIFF_HEAD = 12


class DecodingError(ValueError):
    """The bytes are not the audio that they should be; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class PcmLayout:
    """How samples lie in bytes: numpy's `dtype`, channels side by side."""

    sample_rate_hz: int
    dtype: str = "<i2"
    channels: int = 1

    @property
    def frame_bytes(self) -> int:
        """Bytes of one sample of each channel."""
        return np.dtype(self.dtype).itemsize * self.channels

    def samples(self, data: bytes) -> npt.NDArray[np.float32]:
        """Return the first channel of whole frames as float32 in [-1, 1]."""
        raw = np.frombuffer(data, self.dtype)[:: self.channels]
        if raw.dtype.kind == "f":
            return raw.astype(np.float32)
        return raw.astype(np.float32) / np.float32(-float(np.iinfo(raw.dtype).min))


class RiffReader:
    """Takes a WAV file apart as it comes; what is not `fmt ` or `data` is passed over."""

    def __init__(self) -> None:
        self.layout: PcmLayout | None = None
        self._data = b""
        self._has_begun = False
        self._missing: int | None = None
        """Bytes of sound still to come; None where the stream does not say."""
        self._is_in_sound = False

    def push(self, data: bytes) -> bytes:
        """Return the bytes of sound among these; raises DecodingError."""
        if not self._is_in_sound:
            self._data += data
            if not self._read_heads():
                return b""
            data, self._data = self._data, b""
        if self._missing is None:
            return data
        sound = data[: self._missing]
        self._missing -= len(sound)
        return sound

    def check_complete(self) -> None:
        """Raise DecodingError if a header, or sound that it promised, is missing."""
        if not self._is_in_sound:
            raise DecodingError("the WAV ends before its sound begins")
        if self._missing:
            raise DecodingError(f"the WAV's header promises {self._missing} bytes more of sound")

    def _read_heads(self) -> bool:
        if not self._has_begun and len(self._data) >= RIFF_HEAD:
            if self._data[:4] != b"RIFF" or self._data[8:12] != b"WAVE":
                raise DecodingError(f"this is no WAV: it begins with {self._data[:12]!r}")
            self._has_begun, self._data = True, self._data[RIFF_HEAD:]
        while self._has_begun and len(self._data) >= CHUNK_HEAD:
            name, size = struct.unpack_from("<4sI", self._data)
            if name == b"data":
                self._begin_sound(size)
                return True
            end = CHUNK_HEAD + size + size % 2
            if len(self._data) < end:
                break
            if name == b"fmt ":
                self.layout = _layout(self._data[CHUNK_HEAD:end])
            self._data = self._data[end:]
        return False

    def _begin_sound(self, size: int) -> None:
        if self.layout is None:
            raise DecodingError("the WAV has sound before it says its format")
        self._is_in_sound = True
        self._missing = None if size in UNKNOWN_SIZES else size
        self._data = self._data[CHUNK_HEAD:]


def _layout(head: bytes) -> PcmLayout:
    if len(head) < 16:  # noqa: PLR2004  the shortest there is
        raise DecodingError(f"the WAV's format has {len(head)} bytes, 16 at least are right")
    tag, channels, rate_hz, _, _, bits = struct.unpack_from("<HHIIHH", head)
    if tag == EXTENSIBLE:
        tag = int.from_bytes(head[24:26], "little")
    if (tag, bits) not in DTYPES or not channels or not rate_hz:
        raise DecodingError(
            f"the WAV is of kind {tag} with {bits} bits, {channels} channels, {rate_hz} Hz; 16 and "
            "32 bit integers and 32 bit floats can be read"
        )
    return PcmLayout(rate_hz, DTYPES[tag, bits], channels)
