"""From a model's samples to packets: resample, stretch, encode."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np

from gateway.audio.encoders import ENCODERS
from gateway.audio.joins import silence_between
from gateway.audio.pcm import Resampler, finite
from gateway.audio.stretch import Stretcher

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt


class AudioPipeline:
    """Turns chunks of float32 mono at `from_hz` into packets of `audio_format` at `to_hz`.

    The sound comes out `speed` times as fast as it went in, at the same pitch. Between segments
    there are `pause_seconds` of silence, before that change of speed.
    """

    def __init__(
        self, audio_format: str, from_hz: int, to_hz: int, speed: float, pause_seconds: float = 0
    ) -> None:
        self._resampler = Resampler(from_hz, to_hz)
        self._stretcher = Stretcher(speed, to_hz)
        self._encoder = ENCODERS[audio_format](to_hz)
        self.media_type = self._encoder.media_type
        self.sample_rate_hz = to_hz
        self.speed = speed
        self._from_hz = from_hz
        self._pause_seconds = pause_seconds
        self._last_sample: np.float32 | None = None
        self.seconds = 0.0
        """How much has been taken, pauses and all, as the listener hears it."""

    async def push(
        self, samples: npt.NDArray[np.float32], *, begins_segment: bool = False
    ) -> bytes:
        """Return the bytes that are ready after these samples; a segment begins with some."""
        if begins_segment and self._last_sample is not None:
            last, first = finite(np.array([self._last_sample, samples[0]]))
            pause = silence_between(last, first, self._pause_seconds, self._from_hz)
            samples = np.concatenate([pause, samples])
        if len(samples):
            self._last_sample = samples[-1]
        self.seconds += len(samples) / self._from_hz / self.speed
        return await self._run(lambda: self._encode(self._resampler.push(samples)))

    async def flush(self) -> bytes:
        """Return the last bytes; call it once, at the end."""
        return await self._run(
            lambda: (
                self._encode(self._resampler.flush())
                + self._encoder.encode(self._stretcher.flush())
                + self._encoder.flush()
            )
        )

    def _encode(self, samples: npt.NDArray[np.float32]) -> bytes:
        return self._encoder.encode(self._stretcher.push(samples))

    async def _run(self, work: Callable[[], bytes]) -> bytes:
        # An encoder lets the interpreter go while it works, so a thread spares all other streams.
        return await asyncio.to_thread(work) if self._encoder.is_heavy else work()
