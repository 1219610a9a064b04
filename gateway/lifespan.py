"""Opens what outlives a request, closes it in reverse."""

from __future__ import annotations

import logging
import time
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from gateway.api.deps import State
from gateway.backend.poller import StatisticsPoller
from gateway.backend.triton import TritonSynthesizer
from gateway.backend.way import Way
from gateway.speech.admission import Admission, Limits
from gateway.speech.service import SpeechService
from gateway.speech.speaker import Speaker
from gateway.speech.types import Reference
from gateway.speech.voice_cache import VoiceCache
from gateway.speech.voices import Voices
from gateway.telemetry.collectors import UpstreamCollector
from gateway.telemetry.logging import log_record, trace_record
from gateway.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from contextlib import AbstractAsyncContextManager

    from fastapi import FastAPI

    from gateway.settings import Settings
    from gateway.speech.aliases import Aliases
    from gateway.speech.record import Moment, SpeechRecord
    from gateway.speech.synthesizer import Synthesizer
    from gateway.speech.voice_file import FileVoices
    from gateway.telemetry.tracing import OtlpTracer

log = logging.getLogger("speech.gateway")


def make_lifespan(
    settings: Settings,
    aliases: Aliases,
    of_file: FileVoices,
    synthesizer: Synthesizer | None,
    tracer: OtlpTracer | None = None,
) -> Callable[[FastAPI], AbstractAsyncContextManager[State]]:
    """Return the app's lifespan; it starts without Triton too and says so in /readyz.

    Raises SettingsError for settings of the way to Triton that do not go together.
    """
    way = Way.of(settings) if synthesizer is None else None

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[State, None]:
        async with AsyncExitStack() as stack:
            stack.enter_context(_logged(settings))
            if tracer is not None:
                stack.push_async_callback(tracer.aclose)
            backend = synthesizer
            if backend is None:
                triton = TritonSynthesizer(settings, way)
                stack.push_async_callback(triton.aclose)
                backend = triton
            cache = VoiceCache(settings.cache_dir)
            speaker = Speaker(backend, cache, settings.first_audio_timeout_seconds)
            stack.push_async_callback(speaker.aclose)
            voices = Voices(backend, aliases, of_file)
            state = _state(settings, aliases, voices, speaker, backend)
            if isinstance(backend, TritonSynthesizer):
                collector = UpstreamCollector(backend.counts, backend.address_problem)
                state["metrics"].registry.register(collector)
                if settings.statistics_interval_seconds:
                    poller = StatisticsPoller(
                        backend.targets,
                        state["metrics"].triton,
                        _served(settings, of_file),
                        settings.statistics_interval_seconds,
                    )
                    stack.push_async_callback(poller.aclose)
                    poller.start()
            yield state

    return lifespan


def _served(settings: Settings, of_file: FileVoices) -> tuple[str, ...]:
    """Return the models that must be ready on Triton: those that speak, and what they need."""
    voices = (voice for of_model in of_file.values() for voice in of_model)
    if any(isinstance(voice.source, Reference) for voice in voices):
        return (*settings.models, settings.tokenizer_model)
    return settings.models


@contextmanager
def _logged(settings: Settings) -> Generator[None, None, None]:
    fields = {
        "models": ",".join(settings.models),
        "triton": settings.triton_address,
        "traces": settings.otlp_endpoint or None,
    }
    log.info("gateway.started", extra={"fields": fields})
    if settings.triton_metrics_address and not settings.statistics_interval_seconds:
        detail = "SPEECH_TRITON_METRICS_ADDRESS is set, SPEECH_STATISTICS_INTERVAL_SECONDS is 0"
        log.warning("gateway.metrics_page_is_not_asked", extra={"fields": {"detail": detail}})
    started_at_seconds = time.monotonic()
    yield
    seconds = time.monotonic() - started_at_seconds
    log.info("gateway.stopped", extra={"fields": {"seconds": seconds}})


def _state(
    settings: Settings, aliases: Aliases, voices: Voices, speaker: Speaker, synthesizer: Synthesizer
) -> State:
    admission = Admission(
        Limits(
            permits=settings.max_concurrent_requests,
            wait_seconds=settings.admission_wait_seconds,
            max_waiting=settings.max_waiting_requests,
            caller_concurrent=settings.key_max_concurrent_requests,
            caller_per_minute=settings.key_requests_per_minute,
        )
    )
    metrics = Metrics(settings.models, lambda: admission.in_flight, lambda: admission.waiting)

    def on_reached(record: SpeechRecord, moment: Moment, seconds: float) -> None:
        metrics.reached(record, moment, seconds)
        if moment == "closed":
            log_record(record)
            trace_record(record)

    service = SpeechService(
        synthesizer,
        admission,
        voices,
        speaker,
        on_reached,
        keep_native_rate=settings.keep_native_rate,
    )
    return State(
        settings=settings,
        aliases=aliases,
        synthesizer=synthesizer,
        voices=voices,
        service=service,
        metrics=metrics,
    )
