"""Figures that are kept elsewhere, as Prometheus reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gateway.backend.classify import TABLE
from gateway.backend.upstream import ERROR_CLASSES, UpstreamCounts
from gateway.errors import BackendFailedError, SpeechError
from gateway.speech.buckets import BucketCounts
from gateway.telemetry.collectors import BucketsCollector, UpstreamCollector

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

BOUNDS = (0.1, 1, 2.5)
VALUES = (0.05, 0.1, 0.5, 1.0, 2.6, 100.0)


def exposed(collector: Collector) -> str:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


def test_counts_of_many_values_read_like_the_librarys_histogram() -> None:
    registry = CollectorRegistry()
    theirs = Histogram("x_seconds", "Words", ["model"], buckets=BOUNDS, registry=registry)
    ours = BucketsCollector("x_seconds", "Words", BOUNDS)

    for half in (VALUES[:3], VALUES[3:]):
        counts = BucketCounts(BOUNDS)
        for value in half:
            counts.add(value)
            theirs.labels("m").observe(value)
        ours.labels("m").add_all(counts)

    lines = generate_latest(registry).decode().splitlines()
    assert exposed(ours).splitlines() == [line for line in lines if "_created" not in line]


def test_counts_of_other_buckets_are_not_added() -> None:
    with pytest.raises(ValueError, match="differ"):
        BucketCounts(BOUNDS).add_all(BucketCounts((1, 2)))


def test_every_error_of_the_classification_has_its_class() -> None:
    assert {row.error for row in TABLE} <= ERROR_CLASSES.keys()


def test_calls_are_counted_by_replica_and_class() -> None:
    counts = UpstreamCounts()
    counts.start_at_zero(["hibari"], "a:1")
    with counts.stream("hibari", "a:1"):
        during = exposed(UpstreamCollector(counts, str))
    for calls in (counts.stream, counts.call):
        with pytest.raises(BackendFailedError), calls("hibari", "a:1"):
            raise BackendFailedError("boom")

    samples = {
        (s.name, s.labels.get("class", "")): s.value
        for family in text_string_to_metric_families(exposed(UpstreamCollector(counts, str)))
        for s in family.samples
        if (s.labels.get("model"), s.labels.get("replica")) == ("hibari", "a:1")
    }
    assert 'speech_segments_in_flight{model="hibari",replica="a:1"} 1.0' in during
    assert samples.pop(("speech_segments_in_flight", "")) == 0
    assert samples.pop(("speech_upstream_errors_total", "failed")) == 2
    assert set(samples.values()) == {0}
    assert len(samples) == len(ERROR_CLASSES) - 1


def test_an_error_without_a_class_of_its_own_is_not_lost() -> None:
    counts = UpstreamCounts()

    with pytest.raises(SpeechError), counts.call("hibari", "a:1"):
        raise SpeechError("boom")

    assert counts.errors["hibari", "a:1", "failed"] == 1


@pytest.mark.parametrize(("problem", "value"), [("", 1.0), ("tritons.toml cannot be read", 0.0)])
def test_whether_the_tritons_can_be_told_is_a_gauge(problem: str, value: float) -> None:
    shown = exposed(UpstreamCollector(UpstreamCounts(), lambda: problem))

    assert f"speech_discovery_ok {value}\n" in shown
