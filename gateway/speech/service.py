"""Drives one request: permit, chunks, encoder, record."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING

from gateway.audio.encoders import ENCODERS
from gateway.audio.pcm import Resampler
from gateway.errors import BackendFailedError, InvalidRequestError, SpeechError
from gateway.speech.record import SpeechRecord
from gateway.speech.types import SAMPLE_RATE_HZ
from speech_wire import PcmChunk, SynthesisRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from gateway.audio.encoders import AudioEncoder
    from gateway.speech.admission import Admission
    from gateway.speech.synthesizer import Synthesizer
    from gateway.speech.types import SpeechJob


class SpeechStream:
    """All of one request's state, opened when its first audio is in hand.

    `aclose` gives back permit, model stream and record in every ending; call it once the
    packets are no longer wanted, however that came.
    """

    def __init__(
        self,
        record: SpeechRecord,
        chunks: AsyncGenerator[PcmChunk, None],
        first: PcmChunk,
        encoder: AudioEncoder,
        stack: AsyncExitStack,
    ) -> None:
        self.record = record
        self.media_type = encoder.media_type
        self.sample_rate_hz = encoder.sample_rate_hz
        self._chunks = chunks
        self._first = first
        self._encoder = encoder
        self._resampler = Resampler(first.sample_rate_hz or 0, encoder.sample_rate_hz)
        self._stack = stack

    async def packets(self) -> AsyncGenerator[bytes, None]:
        """Yield encoded bytes as they are made; raises SpeechError if the model breaks off."""
        try:
            yield self._packet(self._first)
            async for chunk in self._chunks:
                yield self._packet(chunk)
            yield self._tail()
        except SpeechError as error:
            self.record.fail(error)
            raise
        self.record.outcome = "finished"

    def _packet(self, chunk: PcmChunk) -> bytes:
        if chunk.sample_rate_hz != self._first.sample_rate_hz:
            raise BackendFailedError(
                "the model changed its sample rate within an utterance",
                detail=f"{self._first.sample_rate_hz} to {chunk.sample_rate_hz} Hz",
            )
        packet = self._encoder.encode(self._resampler.push(chunk.samples))
        self.record.finish_reason = chunk.finish_reason or self.record.finish_reason
        self.record.sent(packet, len(chunk.samples) / (chunk.sample_rate_hz or 1))
        return packet

    def _tail(self) -> bytes:
        packet = self._encoder.encode(self._resampler.flush()) + self._encoder.flush()
        self.record.sent(packet, 0.0)
        return packet

    async def aclose(self) -> None:
        """Cancel what still runs, give back the permit and hand the record on. Idempotent."""
        await self._stack.aclose()


class SpeechService:
    """Opens a SpeechStream for a job."""

    def __init__(
        self,
        synthesizer: Synthesizer,
        admission: Admission,
        on_closed: Callable[[SpeechRecord], None],
        *,
        keep_native_rate: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._synthesizer = synthesizer
        self._admission = admission
        self._on_closed = on_closed
        self._keep_native_rate = keep_native_rate
        self._clock = clock

    async def open(self, job: SpeechJob) -> SpeechStream:
        """Return the stream once its first audio is in hand; raises SpeechError before that."""
        record = SpeechRecord(job, self._clock)
        async with AsyncExitStack() as stack:
            stack.callback(self._close, record)
            try:
                chunks = await self._start(job, stack)
                first = await _first_audio(chunks)
            except SpeechError as error:
                record.fail(error)
                raise
            rate = first.sample_rate_hz if self._keep_native_rate else None
            encoder = ENCODERS[job.audio_format](rate or SAMPLE_RATE_HZ)
            return SpeechStream(record, chunks, first, encoder, stack.pop_all())

    async def _start(self, job: SpeechJob, stack: AsyncExitStack) -> AsyncGenerator[PcmChunk, None]:
        await stack.enter_async_context(self._admission.permit())
        await self._check_voice(job)
        request = SynthesisRequest(target_text=job.text, voice=job.voice, seed=job.seed)
        chunks = self._synthesizer.stream(job.model, request, job.deadline, job.request_id)
        return await stack.enter_async_context(aclosing(chunks))

    async def _check_voice(self, job: SpeechJob) -> None:
        voices = [voice.id for voice in await self._synthesizer.voices(job.model)]
        if voices and job.voice not in voices:
            raise InvalidRequestError(
                f"voice {job.voice!r} is not known for model '{job.model}'; it has {voices}; "
                "GET /v1/audio/voices lists all",
                param="voice",
                code="voice_not_found",
            )

    def _close(self, record: SpeechRecord) -> None:
        record.close()
        self._on_closed(record)


async def _first_audio(chunks: AsyncGenerator[PcmChunk, None]) -> PcmChunk:
    async for chunk in chunks:
        if len(chunk.samples):
            return chunk
    raise BackendFailedError("the model ended without any audio")
