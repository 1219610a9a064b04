"""Drives one request: permit, chunks, encoder, record."""

from __future__ import annotations

import asyncio
import unicodedata
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gateway.audio.encoders import UNCOMPRESSED, with_true_sizes
from gateway.audio.pcm import peak
from gateway.audio.pipeline import AudioPipeline
from gateway.errors import BackendFailedError, InvalidRequestError
from gateway.speech.languages import is_same_language
from gateway.speech.record import SpeechRecord
from gateway.speech.segments import speak_ahead, speakable
from gateway.speech.types import SAMPLE_RATE_HZ
from gateway.text.prepare import segments
from gateway.text.scripts import foreign_letter
from speech_wire import PcmChunk, SynthesisRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from gateway.speech.admission import Admission
    from gateway.speech.ahead import SegmentChunk
    from gateway.speech.record import Moment
    from gateway.speech.speaker import Speaker
    from gateway.speech.synthesizer import Synthesizer
    from gateway.speech.types import SpeechJob, TextLimits, Voice
    from gateway.speech.voices import Voices


class SpeechStream:
    """All of one request's state, opened when its first audio is in hand.

    `aclose` gives back permit, model stream and record in every ending; call it once the
    packets are no longer wanted, however that came.
    """

    def __init__(
        self,
        record: SpeechRecord,
        first: SegmentChunk,
        chunks: AsyncGenerator[SegmentChunk, None],
        pipeline: AudioPipeline,
        stack: AsyncExitStack,
    ) -> None:
        self.record = record
        self.media_type = pipeline.media_type
        self.sample_rate_hz = pipeline.sample_rate_hz
        self._first_hz = first.chunk.sample_rate_hz
        self._first: SegmentChunk | None = first
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
                        self.record.taken()
                    del packet
            self.record.outcome = "finished"

    async def whole(self) -> bytes:
        """Return all of it, with true sizes in a WAV; raises SpeechError, and closes then.

        Whoever sends it says so to the record.
        """
        self.record.is_whole = True
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.aclose)
            with self.record.failures():
                async with (
                    self.record.job.deadline.limit("the audio was not whole in time"),
                    aclosing(self._encoded()) as encoded,
                ):
                    audio = b"".join([packet async for packet in encoded])
            stack.pop_all()
        is_wav = self.record.job.audio_format == "wav"
        return with_true_sizes(audio, self.sample_rate_hz) if is_wav else audio

    async def _encoded(self) -> AsyncGenerator[bytes, None]:
        if self._first is not None:
            yield await self._packet(self._first)
            self._first = None
        async for chunk in self._chunks:
            yield await self._packet(chunk)
            del chunk
        yield await self._pipeline.flush()

    async def _packet(self, item: SegmentChunk) -> bytes:
        chunk, begins_segment = item
        if chunk.sample_rate_hz != self._first_hz:
            raise BackendFailedError(
                "the model changed its sample rate within an utterance",
                detail=f"{self._first_hz} to {chunk.sample_rate_hz} Hz",
            )
        packet = await self._pipeline.push(chunk.samples, begins_segment=begins_segment)
        self.record.received(self._pipeline.seconds, peak(chunk.samples), chunk.finish_reason)
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
        voices: Voices,
        speaker: Speaker,
        on_reached: Callable[[SpeechRecord, Moment, float], None],
        *,
        keep_native_rate: bool = False,
    ) -> None:
        self._synthesizer = synthesizer
        self._admission = admission
        self._voices = voices
        self._speaker = speaker
        self._on_reached = on_reached
        self._keep_native_rate = keep_native_rate

    async def open(self, job: SpeechJob) -> SpeechStream:
        """Return the stream once its first audio is in hand; raises SpeechError before that."""
        record = SpeechRecord(job, on_reached=self._on_reached)
        async with AsyncExitStack() as stack:
            stack.callback(record.close)
            with record.failures():
                async with job.deadline.limit("no audio before the deadline"):
                    with job.span.child("speech.permit"):
                        await stack.enter_async_context(self._admission.permit(job.caller))
                    record.admitted()
                    voice = await self._voices.named(job.model, job.voice)
                    segments = speakable(await self._segments(job, voice))
                    request = await self._request(job)
                    chunks = speak_ahead(segments, partial(self._speak, record, voice, request))
                    await stack.enter_async_context(aclosing(chunks))
                    first = await anext(chunks)
                pipeline = self._pipeline(job, request, first.chunk.sample_rate_hz)
            return SpeechStream(record, first, chunks, pipeline, stack.pop_all())

    async def segments(self, job: SpeechJob) -> list[str]:
        """Return the text as the model would get it, piece by piece; raises SpeechError.

        It counts in the caller's minute, but takes no permit: the model is not needed.
        """
        self._admission.count_in_the_minute(job.caller)
        async with job.deadline.limit("the text was not prepared in time"):
            voice = await self._voices.named(job.model, job.voice)
            prepared = await self._segments(job, voice)
            return await asyncio.to_thread(lambda: list(speakable(prepared)))

    async def _request(self, job: SpeechJob) -> SynthesisRequest:
        # A model that can speak faster does it better than any filter behind it.
        is_native = job.speed != 1.0 and await self._synthesizer.takes(
            job.model, "speed", job.deadline
        )
        speed = job.speed if is_native else None
        return SynthesisRequest(target_text="", seed=job.seed, speed=speed)

    async def _speak(
        self, record: SpeechRecord, voice: Voice, request: SynthesisRequest, text: str
    ) -> AsyncGenerator[PcmChunk, None]:
        request = replace(request, target_text=text)
        asked_at_seconds: float | None = None
        with record.job.span.child("speech.segment", characters=len(text)) as span:
            context = replace(record.context, span=span)
            async with aclosing(self._speaker.speak(voice, request, context)) as chunks:
                async for chunk in chunks:
                    if len(chunk.samples):
                        record.arrived(asked_at_seconds)
                    yield chunk
                    # While this one was taken, nobody waited for the model.
                    asked_at_seconds = record.clock()
                    del chunk

    def _pipeline(
        self, job: SpeechJob, request: SynthesisRequest, from_hz: int | None
    ) -> AudioPipeline:
        from_hz = from_hz or SAMPLE_RATE_HZ
        is_native = self._keep_native_rate and job.audio_format in UNCOMPRESSED
        to_hz = from_hz if is_native else SAMPLE_RATE_HZ
        speed = job.speed if request.speed is None else 1.0
        return AudioPipeline(job.audio_format, from_hz, to_hz, speed, job.pause_seconds)

    async def _segments(self, job: SpeechJob, voice: Voice) -> Iterator[str]:
        policy = job.text_policy
        language = job.language or voice.language
        if job.language and voice.language and not is_same_language(job.language, voice.language):
            raise InvalidRequestError(
                f"'language' is {job.language!r}, but voice {voice.id!r} speaks {voice.language}; "
                "GET /v1/audio/voices names each voice's language",
                param="language",
            )
        limits = await self._synthesizer.text_limits(job.model)
        _check_readable(job.text, voice, limits)
        most = min(limits.max_characters or policy.segment_characters, policy.segment_characters)
        policy = replace(policy, segment_characters=most)
        return segments(job.text, replace(policy, language=language))


def _check_readable(text: str, voice: Voice, limits: TextLimits) -> None:
    # The model would say so too, but of a later segment only after the first has been heard.
    letter = None if limits.scripts is None else foreign_letter(text, limits.scripts)
    if letter is not None:
        name = unicodedata.name(letter, "an unnamed letter")
        raise InvalidRequestError(
            f"voice {voice.id!r} reads {' and '.join(limits.scripts or ())} letters; 'input' has "
            f"{letter!r} ({name})",
            param="input",
        )
