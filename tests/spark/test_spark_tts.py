"""Spark-TTS as `engine serve` runs it, on the real Triton, with random weights.

What they say sounds like nothing, but it comes in the right order, lasts a while and ends.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from spark.server import SparkServer, served, until
from speech_wire import SynthesisRequest
from tritonserver.processes import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.triton]

VOICE = np.arange(32, dtype=np.int32)
CLONED = SynthesisRequest("The sea was calm that morning.", global_tokens=VOICE, seed=4)
NOISE = np.random.default_rng(3).uniform(-0.5, 0.5, 24_000).astype(np.float32)


@pytest.fixture(scope="module")
def server(checkpoint: Path) -> Iterator[SparkServer]:
    yield from served(free_ports(), "--model", "spark_tts", "--model-dir", str(checkpoint))


@pytest.mark.parametrize(
    "request_",
    [
        CLONED,
        replace(CLONED, reference_text="Before.", semantic_tokens=np.arange(50, dtype=np.int32)),
        replace(CLONED, global_tokens=None, reference_wav=NOISE),
        replace(CLONED, global_tokens=None, reference_wav=NOISE, reference_text="Noise."),
        replace(CLONED, global_tokens=None, gender="female", speed_label="high"),
    ],
    ids=["clone", "clone with transcript", "recording", "recording with transcript", "creation"],
)
def test_it_speaks_and_the_same_seed_speaks_the_same(
    server: SparkServer, request_: SynthesisRequest
) -> None:
    first, again = server.hear(request_), server.hear(request_)

    assert first.errors == []
    assert first.finals == 1
    assert first.chunks[-1].finish_reason in ("stop", "length")
    assert {chunk.sample_rate_hz for chunk in first.chunks} == {16_000}
    assert len(first.samples) >= 320
    np.testing.assert_allclose(first.samples, again.samples, atol=1e-5)
    made = first.chunks[0].global_tokens
    assert (made is None) == (request_.gender is None)


def test_another_seed_and_no_seed_are_other_takes(server: SparkServer) -> None:
    takes = [server.hear(replace(CLONED, seed=seed)) for seed in (4, 5, None, None)]

    heard = {take.samples.tobytes() for take in takes}
    assert len(heard) == len(takes)


def test_streams_at_once_sound_as_alone(server: SparkServer) -> None:
    requests = [replace(CLONED, seed=seed) for seed in range(8)]
    alone = [server.hear(request).samples for request in requests]

    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(server.hear, requests))

    for heard, samples in zip(together, alone, strict=True):
        np.testing.assert_allclose(heard.samples, samples, atol=1e-5)


def test_cancels_at_any_time_leave_the_models_whole(server: SparkServer) -> None:
    def ended() -> float:
        return sum(server.outcomes("spark_tts", how) for how in ("cancelled", "finished"))

    before = ended()
    calls = [server.call(replace(CLONED, seed=seed)) for seed in range(8)]
    for call in calls:
        call.cancel()

    assert [(call.whole().errors, call.heard.finals) for call in calls] == [([], 2)] * 8
    until(lambda: ended() == before + 8)
    assert server.hear(CLONED).errors == []
