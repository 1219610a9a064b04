"""Every metric of the gateway: name, label, bucket. Fed once for each request, from its record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from gateway.speech.record import OUTCOMES, SUSPICIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.speech.record import SpeechRecord

CONTENT_TYPE = CONTENT_TYPE_LATEST
FIRST_AUDIO_BUCKETS_SECONDS = (
    0.025,
    0.05,
    0.075,
    0.1,
    0.15,
    0.2,
    0.3,
    0.5,
    0.75,
    1.0,
    1.5,
    2.5,
    5,
    10,
    30,
)


class Metrics:
    """The gateway's own figures in a registry of their own."""

    def __init__(self, models: Sequence[str], in_flight: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._requests = Counter(
            "speech_requests_total",
            "Accepted speech requests that ended, by outcome; malformed ones are not accepted",
            ["model", "outcome"],
            registry=self.registry,
        )
        self._first_audio = Histogram(
            "speech_first_audio_seconds",
            "From the accepted request to its first encoded audio",
            ["model"],
            buckets=FIRST_AUDIO_BUCKETS_SECONDS,
            registry=self.registry,
        )
        self._audio = Counter(
            "speech_audio_seconds_total",
            "Seconds of audio sent to listeners",
            ["model"],
            registry=self.registry,
        )
        self._suspect = Counter(
            "speech_suspect_audio_total",
            "Finished requests whose audio was silent (below -50 dBFS) or too short (0.1 s)",
            ["model", "reason"],
            registry=self.registry,
        )
        gauge = Gauge(
            "speech_requests_in_flight",
            "Requests that hold a permit",
            registry=self.registry,
        )
        gauge.set_function(in_flight)
        self._start_at_zero(models)

    def _start_at_zero(self, models: Sequence[str]) -> None:
        # A rate over a counter that appears with its first error misses that error.
        for model in models:
            self._first_audio.labels(model)
            self._audio.labels(model)
            for reason in SUSPICIONS:
                self._suspect.labels(model, reason)
            for outcome in OUTCOMES:
                self._requests.labels(model, outcome)

    def observe(self, record: SpeechRecord) -> None:
        """Add a request that has ended."""
        model = record.job.model
        self._requests.labels(model, record.outcome).inc()
        self._audio.labels(model).inc(record.audio_seconds)
        if record.suspicion is not None:
            self._suspect.labels(model, record.suspicion).inc()
        if record.first_audio_seconds is not None:
            self._first_audio.labels(model).observe(record.first_audio_seconds)

    def exposition(self) -> bytes:
        """Return the text that Prometheus scrapes."""
        return generate_latest(self.registry)
