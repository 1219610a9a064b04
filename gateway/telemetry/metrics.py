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

from gateway.errors import REFUSALS, OverloadedError
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

ADMISSION_WAIT_BUCKETS_SECONDS = (
    0.001,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    30,
)


class Metrics:
    """The gateway's own figures in a registry of their own."""

    def __init__(
        self,
        models: Sequence[str],
        in_flight: Callable[[], float],
        waiting: Callable[[], float],
    ) -> None:
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
        self._admission_wait = Histogram(
            "speech_admission_wait_seconds",
            "From the accepted request to its permit; those refused have none",
            ["model"],
            buckets=ADMISSION_WAIT_BUCKETS_SECONDS,
            registry=self.registry,
        )
        self._refused = Counter(
            "speech_requests_refused_total",
            "Speech requests that were answered with 429, by the limit that refused them",
            ["reason"],
            registry=self.registry,
        )
        self._gauge("speech_requests_in_flight", "Requests that hold a permit", in_flight)
        self._gauge("speech_requests_waiting", "Requests that wait for a permit", waiting)
        self._start_at_zero(models)

    def _gauge(self, name: str, words: str, value: Callable[[], float]) -> None:
        Gauge(name, words, registry=self.registry).set_function(value)

    def _start_at_zero(self, models: Sequence[str]) -> None:
        # A rate over a counter that appears with its first error misses that error.
        for reason in REFUSALS:
            self._refused.labels(reason)
        for model in models:
            self._admission_wait.labels(model)
            self._first_audio.labels(model)
            self._audio.labels(model)
            for suspicion in SUSPICIONS:
                self._suspect.labels(model, suspicion)
            for outcome in OUTCOMES:
                self._requests.labels(model, outcome)

    def observe(self, record: SpeechRecord) -> None:
        """Add a request that has ended."""
        model = record.job.model
        self._requests.labels(model, record.outcome).inc()
        self._audio.labels(model).inc(record.audio_seconds)
        if record.suspicion is not None:
            self._suspect.labels(model, record.suspicion).inc()
        if record.outcome == "rejected" and isinstance(record.error, OverloadedError):
            self._refused.labels(record.error.reason).inc()
        if record.admission_wait_seconds is not None:
            self._admission_wait.labels(model).observe(record.admission_wait_seconds)
        if record.first_audio_seconds is not None:
            self._first_audio.labels(model).observe(record.first_audio_seconds)

    def exposition(self) -> bytes:
        """Return the text that Prometheus scrapes."""
        return generate_latest(self.registry)
