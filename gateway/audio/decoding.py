"""Reads audio as it arrives: bytes, cut anywhere, go in; the samples that they complete come out.

A container reader would read ahead, and what it holds back would seem to have come late. So
the streams are taken apart here, and FFmpeg's decoders get single frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

import av
import numpy as np

from gateway.audio.riff import DecodingError, PcmLayout, RiffReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

FORMATS = ("pcm", "wav", "mp3", "opus", "aac", "flac")
NOTHING: npt.NDArray[np.float32] = np.zeros(0, np.float32)
OPUS_RATE_HZ = 48_000
"""Opus is decoded at this rate whatever it was made from."""
LACED = 255
"""An Ogg packet goes on in the next segment where this one is full."""


class Decoder(Protocol):
    """One stream of a format: `push` for each piece of bytes, `flush` once at the end.

    Samples are float32 in [-1, 1], the first channel alone. Both raise DecodingError for bytes
    that are not the format, `flush` also for a stream that ends in the middle of something.
    """

    sample_rate_hz: int
    """Known once there are samples; 0 before."""

    def push(self, data: bytes) -> npt.NDArray[np.float32]:
        """Return the samples that these bytes complete."""

    def flush(self) -> npt.NDArray[np.float32]:
        """Return the samples that the decoder held back."""


def open_decoder(audio_format: str, pcm_layout: PcmLayout) -> Decoder:
    """Return a decoder for one of FORMATS; only pcm needs the layout."""
    match audio_format:
        case "pcm":
            return PcmDecoder(pcm_layout)
        case "wav":
            return WavDecoder()
        case "mp3" | "aac":
            return FrameDecoder(audio_format)
        case "flac":
            return FlacDecoder()
        case "opus":
            return OpusDecoder()
    raise DecodingError(f"the format {audio_format!r} is not known; {', '.join(FORMATS)} are")


class PcmDecoder:
    """Plain samples."""

    def __init__(self, layout: PcmLayout) -> None:
        self.sample_rate_hz = layout.sample_rate_hz
        self._layout = layout
        self._rest = b""

    def push(self, data: bytes) -> npt.NDArray[np.float32]:
        """See Decoder.push."""
        data = self._rest + data
        whole = len(data) - len(data) % self._layout.frame_bytes
        self._rest = data[whole:]
        return self._layout.samples(data[:whole])

    def flush(self) -> npt.NDArray[np.float32]:
        """See Decoder.flush."""
        if self._rest:
            raise DecodingError(f"{len(self._rest)} bytes at the end are no whole sample")
        return NOTHING


class WavDecoder:
    """RIFF WAVE, of known length or streamed."""

    def __init__(self) -> None:
        self.sample_rate_hz = 0
        self._riff = RiffReader()
        self._pcm: PcmDecoder | None = None

    def push(self, data: bytes) -> npt.NDArray[np.float32]:
        """See Decoder.push."""
        sound = self._riff.push(data)
        if self._pcm is None and self._riff.layout is not None:
            self._pcm = PcmDecoder(self._riff.layout)
            self.sample_rate_hz = self._riff.layout.sample_rate_hz
        return NOTHING if self._pcm is None else self._pcm.push(sound)

    def flush(self) -> npt.NDArray[np.float32]:
        """See Decoder.flush."""
        self._riff.check_complete()
        return NOTHING if self._pcm is None else self._pcm.flush()


class FrameDecoder:
    """mp3 and ADTS: frames one after another, which FFmpeg's parser finds as they come."""

    def __init__(self, codec: str) -> None:
        self.sample_rate_hz = 0
        self._codec = cast("av.AudioCodecContext", av.CodecContext.create(codec, "r"))

    def push(self, data: bytes) -> npt.NDArray[np.float32]:
        """See Decoder.push."""
        return self._decoded(self._codec.parse(data) if data else [])

    def flush(self) -> npt.NDArray[np.float32]:
        """See Decoder.flush."""
        return self._decoded([*self._codec.parse(b""), None])

    def _decoded(self, packets: Iterable[av.Packet[Any] | None]) -> npt.NDArray[np.float32]:
        frames = [frame for packet in packets for frame in _decode(self._codec, packet)]
        if frames:
            self.sample_rate_hz = frames[0].sample_rate
        return _joined(frames)


class FlacDecoder:
    """Native FLAC. A frame does not say how long it is: it ends where its checksum fits.

    FFmpeg's parser would hold back ten frames to be sure of the ends.
    """

    def __init__(self) -> None:
        self.sample_rate_hz = 0
        self._codec: av.AudioCodecContext | None = None
        self._data = b""

    def push(self, data: bytes) -> npt.NDArray[np.float32]:
        """See Decoder.push."""
        self._data += data
        if self._codec is None and not self._read_header():
            return NOTHING
        frames: list[av.AudioFrame] = []
        while frame := self._next_frame():
            frames += frame
        return _joined(frames)

    def flush(self) -> npt.NDArray[np.float32]:
        """See Decoder.flush."""
        if self._data:
            raise DecodingError(f"{len(self._data)} bytes at the end are no whole FLAC frame")
        return NOTHING

    def _next_frame(self) -> list[av.AudioFrame]:
        for end in self._ends():
            try:
                frame = _decode(self._codec, av.Packet(self._data[:end]))
            except DecodingError:
                continue
            if frame:
                self._data = self._data[end:]
                return frame
        return []

    def _ends(self) -> Iterator[int]:
        """Yield where the first frame may end: before what looks like a next one, or here."""
        at = self._data.find(b"\xff", 2)
        while at != -1:
            if self._data[at + 1 : at + 2] in (b"\xf8", b"\xf9"):
                yield at
            at = self._data.find(b"\xff", at + 1)
        if self._data[1:].endswith(b"\xff"):  # It may begin the next frame.
            yield len(self._data) - 1
        if self._data:
            yield len(self._data)

    def _read_header(self) -> bool:
        if not b"fLaC".startswith(self._data[:4]):
            raise DecodingError(f"this is no FLAC: it begins with {self._data[:4]!r}")
        at, is_last = 4, False
        while not is_last:
            head = self._data[at : at + 4]
            at += 4 + int.from_bytes(head[1:], "big")
            if len(head) < 4 or len(self._data) < at:  # noqa: PLR2004  type and 24 bits of length
                return False
            is_last = bool(head[0] & 0x80)
        self._codec = av.CodecContext.create("flac", "r")
        self._codec.options = {"err_detect": "crccheck+explode"}
        stream_info = self._data[8:42]
        self._codec.extradata = stream_info
        self.sample_rate_hz = int.from_bytes(stream_info[10:13], "big") >> 4
        self._data = self._data[at:]
        return True


class OpusDecoder:
    """Opus in Ogg, page by page (RFC 3533, RFC 7845)."""

    def __init__(self) -> None:
        self.sample_rate_hz = OPUS_RATE_HZ
        self._codec: av.AudioCodecContext | None = None
        self._data = b""
        self._packet = b""
        self._skip = 0

    def push(self, data: bytes) -> npt.NDArray[np.float32]:
        """See Decoder.push."""
        self._data += data
        frames = []
        for packet in self._packets():
            if packet.startswith(b"OpusHead"):
                self._codec = av.CodecContext.create("libopus", "r")
                self._codec.extradata = packet
                self._skip = int.from_bytes(packet[10:12], "little")
            elif not packet.startswith(b"OpusTags"):
                frames += _decode(self._codec, av.Packet(packet))
        samples = _joined(frames)
        skipped, self._skip = samples[: self._skip], max(0, self._skip - len(samples))
        return samples[len(skipped) :]

    def flush(self) -> npt.NDArray[np.float32]:
        """See Decoder.flush."""
        if self._data or self._packet:
            raise DecodingError("the Ogg stream ends within a page")
        return NOTHING

    def _packets(self) -> Iterator[bytes]:
        while len(self._data) > 26:  # noqa: PLR2004  the fixed part of a page's header
            if not self._data.startswith(b"OggS"):
                raise DecodingError(f"this is no Ogg: a page begins with {self._data[:4]!r}")
            lengths = self._data[27 : 27 + self._data[26]]
            at = 27 + self._data[26]
            if len(self._data) < at + sum(lengths):
                return
            for length in lengths:
                self._packet += self._data[at : at + length]
                at += length
                if length < LACED:
                    yield self._packet
                    self._packet = b""
            self._data = self._data[at:]


def _decode(
    codec: av.AudioCodecContext | None, packet: av.Packet[Any] | None
) -> list[av.AudioFrame]:
    if codec is None:
        raise DecodingError("the stream does not begin with its header")
    try:
        return codec.decode(packet)
    except av.FFmpegError as error:
        raise DecodingError(f"FFmpeg cannot decode it: {error.strerror}") from error


def _joined(frames: list[av.AudioFrame]) -> npt.NDArray[np.float32]:
    return np.concatenate([NOTHING, *(_first_channel(frame) for frame in frames)])


def _first_channel(frame: av.AudioFrame) -> npt.NDArray[np.float32]:
    samples = frame.to_ndarray()
    samples = samples[0] if frame.format.is_planar else samples[0, :: frame.layout.nb_channels]
    if samples.dtype.kind == "i":
        return (samples / -float(np.iinfo(samples.dtype).min)).astype(np.float32)
    return samples.astype(np.float32)
