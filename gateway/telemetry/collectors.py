"""Metrics that are kept elsewhere, or added many at a time: read when they are asked for."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from gateway.speech.buckets import BucketCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


class BucketsCollector(Collector):
    """A histogram by model that takes whole BucketCounts: the library's takes value by value."""

    def __init__(self, name: str, words: str, bounds: Sequence[float]) -> None:
        self._name = name
        self._words = words
        self._bounds = bounds
        self._by_model: dict[str, BucketCounts] = {}

    def labels(self, model: str) -> BucketCounts:
        """Return the model's counts, zeros at first."""
        return self._by_model.setdefault(model, BucketCounts(self._bounds))

    def collect(self) -> Iterator[Metric]:
        """See Collector.collect."""
        bounds = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        family = HistogramMetricFamily(self._name, self._words, labels=["model"])
        for model, counts in self._by_model.items():
            buckets = list(zip(bounds, accumulate(counts.counts), strict=True))
            family.add_metric([model], buckets, counts.total)
        yield family


class Upstream(Protocol):
    """What the synthesizer counts of its calls to Triton."""

    @property
    def in_flight(self) -> Mapping[tuple[str, str], float]:
        """Open streams by model and replica."""

    @property
    def errors(self) -> Mapping[tuple[str, str, str], float]:
        """Failures by model, replica and class."""


class UpstreamCollector(Collector):
    """The streams to Triton, by model and replica, and whether the Tritons are known."""

    def __init__(self, upstream: Upstream, address_problem: Callable[[], str]) -> None:
        self._upstream = upstream
        self._address_problem = address_problem

    def collect(self) -> Iterator[Metric]:
        """See Collector.collect."""
        in_flight = GaugeMetricFamily(
            "speech_segments_in_flight",
            "Segments that Triton speaks now: streams to it, without those that are being ended",
            labels=["model", "replica"],
        )
        for labels, value in self._upstream.in_flight.items():
            in_flight.add_metric(labels, value)
        errors = CounterMetricFamily(
            "speech_upstream_errors",
            "Streams to Triton, and calls of its tokenizer, that failed, by class; those that "
            "another Triton took over, too",
            labels=["model", "replica", "class"],
        )
        for names, count in self._upstream.errors.items():
            errors.add_metric(names, count)
        known = GaugeMetricFamily(
            "speech_discovery_ok",
            "1 while what SPEECH_TRITON_ADDRESS names can be read, else 0",
            value=float(not self._address_problem()),
        )
        yield from (in_flight, errors, known)
