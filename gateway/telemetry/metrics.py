"""The gateway's own metrics: name, label, bucket. Fed from the record of each accepted request.

What a request reaches on its way is counted when it is reached, all else at its end.
"""

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
    disable_created_metrics,
    generate_latest,
)

from gateway.errors import CODES, REFUSALS, OverloadedError
from gateway.speech.playback import START_BUFFER_SECONDS
from gateway.speech.record import GAP_BUCKETS_SECONDS, OUTCOMES, STAGES, SUSPICIONS
from gateway.telemetry.collectors import BucketsCollector
from gateway.telemetry.triton_statistics import TritonStatistics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.errors import Code
    from gateway.speech.record import Moment, SpeechRecord

CONTENT_TYPE = CONTENT_TYPE_LATEST
FIRST_AUDIO_BUCKETS_SECONDS = (
    *(0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5, 10, 30, 60, 120, 600),
)
ADMISSION_WAIT_BUCKETS_SECONDS = (
    *(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
NO_MODEL = "none"
"""The model of a request that was refused before anyone knew which it meant."""
DELIVERIES = ("streamed", "whole")
STREAM_BUCKETS_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
REALTIME_FACTOR_BUCKETS = (
    *(
        0.02,
        0.05,
        0.1,
        0.15,
        0.2,
        0.3,
        0.4,
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
        1,
        1.25,
        1.5,
        2,
        5,
        10,
        20,
        60,
    ),
)


class Metrics:
    """The gateway's own figures, in a registry that others may add to, and Triton's beside it."""

    def __init__(
        self,
        models: Sequence[str],
        in_flight: Callable[[], float],
        waiting: Callable[[], float],
    ) -> None:
        # Else each histogram and counter has a second series, which nobody asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.triton = TritonStatistics()
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._gauge("speech_requests_in_flight", "Requests that hold a permit", in_flight)
        self._gauge("speech_requests_waiting", "Requests that wait for a permit", waiting)
        self._make_endings()
        self._make_times()
        self._make_playback()
        self._start_at_zero(models)

    def _make_endings(self) -> None:
        self._requests = self._counter(
            "speech_requests_total",
            "Accepted speech requests that ended, by outcome; malformed ones are not accepted",
            "outcome",
        )
        self._errors = self._counter(
            "speech_errors_total",
            "Requests that ended with an error, by the code of its body; the model of those that "
            "were refused before they were accepted is none",
            "code",
        )
        self._cancelled = self._counter(
            "speech_requests_cancelled_total",
            "Requests that their clients gave up, by what they still waited for: the permit, the "
            "first audio, or the end of the stream",
            "stage",
        )
        self._broken = self._counter(
            "speech_streams_broken_total",
            "Streams that failed after audio had left, so that the listener heard a part",
        )
        self._suspect = self._counter(
            "speech_suspect_audio_total",
            "Finished requests whose audio was silent (below -50 dBFS) or too short (0.1 s)",
            "reason",
        )
        self._refused = Counter(
            "speech_requests_refused_total",
            "Speech requests that were answered with 429, by the limit that refused them; previews "
            "are not among them",
            ["reason"],
            registry=self.registry,
        )

    def _make_times(self) -> None:
        self._admission_wait = self._histogram(
            "speech_admission_wait_seconds",
            "From the accepted request to its permit; those refused have none",
            ADMISSION_WAIT_BUCKETS_SECONDS,
        )
        self._first_chunk = self._histogram(
            "speech_first_chunk_seconds",
            "From the accepted request to the model's first samples",
            FIRST_AUDIO_BUCKETS_SECONDS,
        )
        self._first_audio = self._histogram(
            "speech_first_audio_seconds",
            "From the accepted request to the first encoded audio that leaves: of a whole answer "
            "that is when all is made",
            FIRST_AUDIO_BUCKETS_SECONDS,
            "delivery",
        )
        self._gaps = BucketsCollector(
            "speech_chunk_gap_seconds",
            "How long the gateway waited for a chunk after it had taken the one before in the "
            "same segment",
            GAP_BUCKETS_SECONDS,
        )
        self.registry.register(self._gaps)
        self._stream = self._histogram(
            "speech_stream_seconds",
            "From the accepted request to its end, for those with audio; a slow listener counts",
            STREAM_BUCKETS_SECONDS,
        )
        self._realtime_factor = self._histogram(
            "speech_realtime_factor",
            "Seconds from the permit to the end for each second of audio, of finished requests; "
            "a listener who takes it no faster than he plays it makes this 1",
            REALTIME_FACTOR_BUCKETS,
        )

    def _make_playback(self) -> None:
        player = (
            f"a modelled player that starts {START_BUFFER_SECONDS:g} s after the first audio and "
            "plays in real time; speech that is sent whole has none"
        )
        self._audio = self._counter(
            "speech_audio_seconds_total", "Seconds of audio sent to listeners"
        )
        self._characters = self._counter(
            "speech_text_characters_total", "Characters of the texts of requests with a permit"
        )
        self._underruns = self._counter(
            "speech_underruns_total", f"How often speech came too late for {player}"
        )
        self._underrun = self._counter(
            "speech_underrun_seconds_total", f"Seconds of silence between sounds in {player}"
        )

    def _gauge(self, name: str, words: str, value: Callable[[], float]) -> None:
        Gauge(name, words, registry=self.registry).set_function(value)

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(name, words, ["model", *labels], registry=self.registry)

    def _histogram(
        self, name: str, words: str, buckets: Sequence[float], *labels: str
    ) -> Histogram:
        return Histogram(name, words, ["model", *labels], buckets=buckets, registry=self.registry)

    def _start_at_zero(self, models: Sequence[str]) -> None:
        # A rate over a counter that appears with its first error misses that error.
        for reason in REFUSALS:
            self._refused.labels(reason)
        by_value: tuple[tuple[Counter | Histogram, Sequence[str]], ...] = (
            (self._requests, OUTCOMES),
            (self._errors, CODES),
            (self._cancelled, STAGES),
            (self._suspect, SUSPICIONS),
            (self._first_audio, DELIVERIES),
        )
        by_model = (
            *(self._admission_wait, self._first_chunk, self._stream),
            *(self._realtime_factor, self._audio, self._characters, self._broken),
            *(self._underruns, self._underrun, self._gaps),
        )
        for code in CODES:
            self._errors.labels(NO_MODEL, code)
        for model in models:
            for metric in by_model:
                metric.labels(model)
            for metric_by_value, values in by_value:
                for value in values:
                    metric_by_value.labels(model, value)

    def reached(self, record: SpeechRecord, moment: Moment, seconds: float) -> None:
        """Add what a request has just reached, so many seconds after it was accepted."""
        model = record.job.model
        if moment == "admitted":
            self._admission_wait.labels(model).observe(seconds)
            self._characters.labels(model).inc(len(record.job.text))
        elif moment == "first_chunk":
            self._first_chunk.labels(model).observe(seconds)
        elif moment == "first_audio":
            delivery = "whole" if record.is_whole else "streamed"
            self._first_audio.labels(model, delivery).observe(seconds)
        else:
            self._observe_ending(record)
            self._observe_audio(record)

    def refused(self, code: Code) -> None:
        """Add a request that was answered with an error before it was accepted."""
        self._errors.labels(NO_MODEL, code).inc()

    def _observe_ending(self, record: SpeechRecord) -> None:
        model = record.job.model
        self._requests.labels(model, record.outcome).inc()
        if record.outcome == "cancelled":
            self._cancelled.labels(model, record.stage).inc()
        if record.error is not None:
            self._errors.labels(model, record.error.code).inc()
            if record.has_left and not record.is_whole and record.outcome != "cancelled":
                self._broken.labels(model).inc()
        if record.suspicion is not None:
            self._suspect.labels(model, record.suspicion).inc()
        if record.outcome == "rejected" and isinstance(record.error, OverloadedError):
            self._refused.labels(record.error.reason).inc()

    def _observe_audio(self, record: SpeechRecord) -> None:
        model = record.job.model
        self._gaps.labels(model).add_all(record.gaps)
        self._underruns.labels(model).inc(record.player.underruns)
        self._underrun.labels(model).inc(record.player.underrun_seconds)
        if record.has_left:
            self._audio.labels(model).inc(record.audio_seconds)
            self._stream.labels(model).observe(record.total_seconds)
        if record.realtime_factor is not None:
            self._realtime_factor.labels(model).observe(record.realtime_factor)

    def exposition(self) -> bytes:
        """Return the text that Prometheus scrapes."""
        return generate_latest(self.registry) + self.triton.exposition()
