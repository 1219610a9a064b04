"""From the bytes of one request and when they came to what its listener heard.

All is taken from decoded audio; nothing is estimated from sizes or bit rates.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gateway.audio.decoding import open_decoder
from gateway.audio.pcm import to_s16le
from gateway.audio.recording import Recording
from gateway.audio.riff import DecodingError, PcmLayout
from gateway.bench.playback import play

if TYPE_CHECKING:
    import numpy.typing as npt

    from gateway.bench.requests import Take

AUDIBLE_DBFS = -50.0
"""Below this a sample is silence; speech peaks above -30 dBFS."""


@dataclass(frozen=True, slots=True)
class Ear:
    """How a listener takes what comes: format, player's buffer, what is loud enough to hear.

    `pcm` is for formats without a header. With `audio_dir`, what was heard is kept there.
    """

    audio_format: str = "pcm"
    pcm: PcmLayout = field(default_factory=lambda: PcmLayout(24_000))
    buffer_seconds: float = 0.2
    audible_dbfs: float = AUDIBLE_DBFS
    audio_dir: str | None = None

    @property
    def audible_level(self) -> float:
        """The least size of a sample that is heard."""
        return float(10 ** (self.audible_dbfs / 20))


@dataclass(frozen=True, slots=True)
class Measured:
    """One request's figures. Seconds count from when it was to be sent, rtf's from when it was.

    None where there is no such figure: no byte, no sound, or none that is audible.
    """

    level: str
    number: int
    utterance: str
    characters: int
    manner: str
    outcome: str
    detail: str
    scheduled_seconds: float
    """On the clock of the level, which begins at 0."""
    send_lag_seconds: float
    """How much later than scheduled it was sent: the load generator's own fault."""
    first_byte_seconds: float | None = None
    first_audible_seconds: float | None = None
    """When the first sample above the threshold had arrived."""
    first_heard_seconds: float | None = None
    """When the player played it: its waiting and what silence comes before are in this."""
    total_seconds: float = 0.0
    audio_seconds: float = 0.0
    lead_silence_seconds: float | None = None
    rtf: float | None = None
    underruns: int = 0
    stalled_seconds: float = 0.0
    max_gap_seconds: float | None = None
    received_bytes: int = 0
    arrivals: tuple[tuple[float, float], ...] = ()
    """(seconds, seconds of audio that were complete by then), for each piece that came."""

    @property
    def is_ok(self) -> bool:
        """Whether all of the speech came."""
        return self.outcome == "ok"

    @property
    def is_counted(self) -> bool:
        """Whether the times are a plain listener's: those who hang up or read slowly are load.

        Whoever meant to hang up is left out even if the speech was over before: only slow
        answers would be missing, and the rest would look fast.
        """
        return self.is_ok and self.manner == "listens"

    @property
    def gaps_seconds(self) -> tuple[float, ...]:
        """The times between pieces that completed some audio."""
        moments = [at for at, _ in _growing(self.arrivals)]
        return tuple(b - a for a, b in pairwise(moments))

    def row(self) -> dict[str, Any]:
        """Return all of it but the arrivals, as a line of a table."""
        fields = asdict(self)
        del fields["arrivals"]
        return fields


@dataclass(frozen=True, slots=True)
class _Sound:
    samples: npt.NDArray[np.float32]
    sample_rate_hz: int
    arrivals: tuple[tuple[float, float], ...]
    error: str


def measure(take: Take, level: str, started_seconds: float, ear: Ear) -> Measured:
    """Return the figures of a request whose level began at `started_seconds`."""
    request, origin = take.request, take.scheduled_seconds
    sound = _listen(take, ear)
    total = take.ended_seconds - origin
    measured = Measured(
        level=level,
        number=request.number,
        utterance=request.utterance.id,
        characters=len(request.utterance.text),
        manner=request.manner,
        outcome=take.outcome,
        detail=take.detail,
        scheduled_seconds=origin - started_seconds,
        send_lag_seconds=take.sent_seconds - origin,
        first_byte_seconds=take.pieces[0][0] - origin if take.pieces else None,
        total_seconds=total,
        received_bytes=sum(len(data) for _, data in take.pieces),
        arrivals=sound.arrivals,
    )
    if take.outcome == "ok" and sound.error:
        measured = replace(measured, outcome="undecodable", detail=sound.error)
    if ear.audio_dir is not None and len(sound.samples):
        _keep(sound, Path(ear.audio_dir) / f"{level}-{request.number:05}.wav")
    return _with_sound(measured, sound, ear)


def _listen(take: Take, ear: Ear) -> _Sound:
    layout = replace(ear.pcm, sample_rate_hz=take.sample_rate_hz or ear.pcm.sample_rate_hz)
    parts: list[npt.NDArray[np.float32]] = [np.zeros(0, np.float32)]
    arrivals, samples, error = [], 0, ""
    decoder = open_decoder(ear.audio_format, layout)
    # What the decoder holds back to the end came with the last piece.
    last_at = take.pieces[-1][0] if take.pieces else take.ended_seconds
    try:
        for at, data in [*take.pieces, (last_at, None)]:
            parts.append(decoder.flush() if data is None else decoder.push(data))
            samples += len(parts[-1])
            there = samples / decoder.sample_rate_hz if samples else 0.0
            arrivals.append((at - take.scheduled_seconds, there))
    except DecodingError as reason:
        error = str(reason)
    return _Sound(np.concatenate(parts), decoder.sample_rate_hz, tuple(arrivals), error)


def _with_sound(measured: Measured, sound: _Sound, ear: Ear) -> Measured:
    if not len(sound.samples):
        return replace(measured, outcome="no audio") if measured.is_ok else measured
    seconds = len(sound.samples) / sound.sample_rate_hz
    arrivals = _growing(sound.arrivals)
    playback = play(arrivals, ear.buffer_seconds)
    measured = replace(
        measured,
        audio_seconds=seconds,
        rtf=(measured.total_seconds - measured.send_lag_seconds) / seconds,
        underruns=len(playback.stalls),
        stalled_seconds=playback.stalled_seconds,
        max_gap_seconds=max(measured.gaps_seconds, default=None),
    )
    audible = np.abs(sound.samples) >= ear.audible_level
    if not audible.any():
        return replace(measured, outcome="silent") if measured.is_ok else measured
    first = int(audible.argmax())
    position = first / sound.sample_rate_hz
    # The sample itself must be there, not only those before it.
    arrived = next(at for at, there in arrivals if round(there * sound.sample_rate_hz) > first)
    return replace(
        measured,
        first_audible_seconds=arrived,
        first_heard_seconds=playback.heard_seconds(position),
        lead_silence_seconds=position,
    )


def _growing(arrivals: tuple[tuple[float, float], ...]) -> list[tuple[float, float]]:
    """Return those arrivals that completed some audio."""
    before, growing = 0.0, []
    for at, there in arrivals:
        if there > before:
            growing.append((at, there))
        before = there
    return growing


def _keep(sound: _Sound, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    recording = Recording(path, sound.sample_rate_hz)
    recording.write(to_s16le(sound.samples))
    recording.close()
