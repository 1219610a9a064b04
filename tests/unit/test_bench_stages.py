"""What Triton's models did between two of its answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from fakes.statistics import model_statistics
from gateway.backend.statistics import (
    BATCH_STAGES,
    STAGES,
    BatchStatistics,
    Duration,
    ModelStatistics,
    ReplicaStatistics,
)
from gateway.bench.stages import StatisticsReader, difference
from gateway.errors import SpeechError

if TYPE_CHECKING:
    from fakes.triton import FakeTriton


def answer(
    requests: int,
    queue_seconds: float = 0.0,
    *,
    sizes: dict[int, int] | None = None,
    failed: int = 0,
    version: str = "1",
) -> ReplicaStatistics:
    """Return what a Triton with one model says, `sizes` being how often it had which batch."""
    stages = {stage: Duration(requests, requests * 0.01) for stage in STAGES}
    stages |= {"queue": Duration(requests, queue_seconds), "fail": Duration(failed, 0.0)}
    batches = tuple(
        BatchStatistics(size, {stage: Duration(count, 1.0) for stage in BATCH_STAGES})
        for size, count in (sizes or {}).items()
    )
    model = ModelStatistics("vocoder", version, None, requests, requests, stages, batches)
    return ReplicaStatistics(is_ready=True, version="", models=(model,), states=())


def test_means_are_those_of_the_time_between() -> None:
    before = answer(10, queue_seconds=99.0, sizes={1: 10, 4: 7})
    after = answer(14, queue_seconds=99.2, sizes={1: 12, 2: 1, 4: 7})

    models, notes = difference(before, after)

    assert models["vocoder"]["requests"] == 4
    assert models["vocoder"]["mean_seconds"]["queue"] == pytest.approx(0.05)
    assert models["vocoder"]["mean_seconds"]["compute_infer"] == pytest.approx(0.01)
    assert models["vocoder"]["batch_sizes"] == {"1": 2, "2": 1}
    assert notes == []


def test_a_model_that_did_nothing_is_left_out() -> None:
    assert difference(answer(10), answer(10)) == ({}, [])


def test_one_that_only_failed_is_not() -> None:
    models, _ = difference(answer(10), answer(10, failed=3))

    assert models["vocoder"]["failed"] == 3


def test_a_model_that_was_loaded_anew_is_noted() -> None:
    models, notes = difference(answer(1000), answer(4, queue_seconds=2.0))

    assert models["vocoder"]["mean_seconds"]["queue"] == 0.5
    assert notes == ["vocoder was loaded anew; its figures are those since then"]


def test_another_version_says_so() -> None:
    models, _ = difference(answer(1, version="2"), answer(3, version="2"))

    assert list(models) == ["vocoder, version 2"]


def read(address: str, times: int = 1) -> list[ReplicaStatistics]:
    async def run() -> list[ReplicaStatistics]:
        reader = StatisticsReader(address)
        try:
            return [await reader.read() for _ in range(times)]
        finally:
            await reader.aclose()

    return asyncio.run(run())


def test_a_triton_is_asked(triton: FakeTriton) -> None:
    triton.statistics.models = [model_statistics("vocoder", requests=6, stage_ms=2.0)]

    first, second = read(triton.address, times=2)

    assert first == second
    assert first.models[0].stages["queue"] == Duration(6, pytest.approx(0.012))


def test_no_triton_is_an_error() -> None:
    with pytest.raises(SpeechError):
        read("127.0.0.1:9")
