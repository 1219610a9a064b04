"""Drives one request: permit, chunks, encoder, record."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING

from gateway.audio.encoders import UNCOMPRESSED, with_true_sizes
from gateway.audio.pipeline import AudioPipeline
from gateway.errors import BackendFailedError, UnknownVoiceError
from gateway.speech.record import SpeechRecord
from gateway.speech.types import SAMPLE_RATE_HZ
from speech_wire import PcmChunk, SynthesisRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from gateway.speech.admission import Admission
    from gateway.speech.aliases import Aliases
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
        first: PcmChunk,
        chunks: AsyncGenerator[PcmChunk, None],
        pipeline: AudioPipeline,
        stack: AsyncExitStack,
    ) -> None:
        self.record = record
        self.media_type = pipeline.media_type
        self.sample_rate_hz = pipeline.sample_rate_hz
        self._first = first
        self._chunks = chunks
        self._pipeline = pipeline
        self._stack = stack

    async def packets(self) -> AsyncGenerator[bytes, None]:
        """Yield encoded bytes as they are made; raises SpeechError if the model breaks off."""
        with self.record.failures():
            async with aclosing(self._encoded()) as encoded:
                async for packet in encoded:
                    if packet:
                        self.record.sent()
                        yield packet
            self.record.outcome = "finished"

    async def whole(self) -> bytes:
        """Return all of it, with true sizes in a WAV, and close; raises SpeechError."""
        async with aclosing(self):
            with self.record.failures():
                async with self.record.job.deadline.limit("the audio was not whole in time"):
                    audio = b"".join([packet async for packet in self.packets()])
        is_wav = self.record.job.audio_format == "wav"
        return with_true_sizes(audio, self.sample_rate_hz) if is_wav else audio

    async def _encoded(self) -> AsyncGenerator[bytes, None]:
        yield await self._packet(self._first)
        async for chunk in self._chunks:
            yield await self._packet(chunk)
        yield await self._pipeline.flush()

    async def _packet(self, chunk: PcmChunk) -> bytes:
        if chunk.sample_rate_hz != self._first.sample_rate_hz:
            raise BackendFailedError(
                "the model changed its sample rate within an utterance",
                detail=f"{self._first.sample_rate_hz} to {chunk.sample_rate_hz} Hz",
            )
        seconds = len(chunk.samples) / (chunk.sample_rate_hz or 1) / self._pipeline.speed
        self.record.received(seconds, chunk.finish_reason)
        return await self._pipeline.push(chunk.samples)

    async def aclose(self) -> None:
        """Cancel what still runs, give back the permit and hand the record on. Idempotent."""
        await self._stack.aclose()


class SpeechService:
    """Opens a SpeechStream for a job."""

    def __init__(
        self,
        synthesizer: Synthesizer,
        admission: Admission,
        aliases: Aliases,
        on_closed: Callable[[SpeechRecord], None],
        *,
        keep_native_rate: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._synthesizer = synthesizer
        self._admission = admission
        self._aliases = aliases
        self._on_closed = on_closed
        self._keep_native_rate = keep_native_rate
        self._clock = clock

    async def open(self, job: SpeechJob) -> SpeechStream:
        """Return the stream once its first audio is in hand; raises SpeechError before that."""
        record = SpeechRecord(job, self._clock)
        async with AsyncExitStack() as stack:
            stack.callback(self._close, record)
            with record.failures():
                async with job.deadline.limit("no audio before the deadline"):
                    await stack.enter_async_context(self._admission.permit())
                    request = await self._request(job)
                    chunks = await self._start(job, request, stack)
                    first = await _first_audio(chunks)
                rate = first.sample_rate_hz or SAMPLE_RATE_HZ
                is_native = self._keep_native_rate and job.audio_format in UNCOMPRESSED
                to_hz = rate if is_native else SAMPLE_RATE_HZ
                speed = job.speed if request.speed is None else 1.0
                pipeline = AudioPipeline(job.audio_format, rate, to_hz, speed)
            return SpeechStream(record, first, chunks, pipeline, stack.pop_all())

    async def _request(self, job: SpeechJob) -> SynthesisRequest:
        voice = await self._voice(job)
        # A model that can speak faster does it better than any filter behind it.
        is_native = job.speed != 1.0 and await self._synthesizer.takes(job.model, "speed")
        return SynthesisRequest(
            target_text=job.text,
            voice=voice,
            seed=job.seed,
            speed=job.speed if is_native else None,
        )

    async def _start(
        self, job: SpeechJob, request: SynthesisRequest, stack: AsyncExitStack
    ) -> AsyncGenerator[PcmChunk, None]:
        chunks = self._synthesizer.stream(job.model, request, job.deadline, job.request_id)
        return await stack.enter_async_context(aclosing(chunks))

    async def _voice(self, job: SpeechJob) -> str:
        """Return the model's own name of the voice: a name it has itself is never an alias."""
        meant = self._aliases.voice(job.model, job.voice)
        # The model may have got new ones since it was asked last.
        for is_fresh in (False, True):
            voices = await self._synthesizer.voices(job.model, is_fresh=is_fresh)
            names = [voice.id for voice in voices]
            if not names:
                return meant  # A model that names no voices takes any.
            for name in (job.voice, meant):
                if name in names:
                    return name
        raise UnknownVoiceError.among(job.voice, [*names, *self._aliases.of(job.model, names)])

    def _close(self, record: SpeechRecord) -> None:
        record.close()
        self._on_closed(record)


async def _first_audio(chunks: AsyncGenerator[PcmChunk, None]) -> PcmChunk:
    async for chunk in chunks:
        if len(chunk.samples):
            return chunk
    raise BackendFailedError("the model ended without any audio")
