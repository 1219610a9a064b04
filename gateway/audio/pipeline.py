"""From a model's samples to packets: resample, stretch, encode."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.audio.encoders import ENCODERS
from gateway.audio.pcm import Resampler
from gateway.audio.stretch import Stretcher

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt


class AudioPipeline:
    """Turns chunks of float32 mono at `from_hz` into packets of `audio_format` at `to_hz`.

    The sound comes out `speed` times as fast as it went in, at the same pitch.
    """

    def __init__(self, audio_format: str, from_hz: int, to_hz: int, speed: float) -> None:
        self._resampler = Resampler(from_hz, to_hz)
        self._stretcher = Stretcher(speed, to_hz)
        self._encoder = ENCODERS[audio_format](to_hz)
        self.media_type = self._encoder.media_type
        self.sample_rate_hz = to_hz
        self.speed = speed

    async def push(self, samples: npt.NDArray[np.float32]) -> bytes:
        """Return the bytes that are ready after these samples."""
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
