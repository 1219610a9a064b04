"""The silence between two segments: its length, and no click at its ends."""

from __future__ import annotations

import numpy as np
import pytest

from fakes.script import tone
from gateway.audio.joins import silence_between
from gateway.audio.pipeline import AudioPipeline

RATE_HZ = 24_000


@pytest.mark.parametrize(("seconds", "samples"), [(0.15, 3600), (0.0, 240), (0.001, 240)])
def test_it_lasts_as_long_as_asked_or_its_ramps(seconds: float, samples: int) -> None:
    assert len(silence_between(0.5, -0.5, seconds, RATE_HZ)) == samples


def test_it_starts_and_ends_where_its_neighbours_are_and_is_silent_between() -> None:
    pause = silence_between(0.5, -0.25, 0.1, RATE_HZ)

    assert pause.dtype == np.float32
    assert pause[0] == pytest.approx(0.5)
    assert pause[-1] == pytest.approx(-0.25)
    assert not pause[120:-120].any()


@pytest.mark.anyio
async def test_joined_sines_have_no_greater_step_than_a_sine() -> None:
    """Cut in the middle of their waves, where a bare join would click."""
    one, other = tone(1000 + 13), tone(1000, start=20)
    pipeline = AudioPipeline("pcm", RATE_HZ, RATE_HZ, 1.0, pause_seconds=0.05)

    pcm = await pipeline.push(one, begins_segment=True)
    pcm += await pipeline.push(other, begins_segment=True)
    pcm += await pipeline.flush()

    samples = np.frombuffer(pcm, "<i2") / 32767
    assert len(samples) == len(one) + 1200 + len(other)
    np.testing.assert_allclose(samples[: len(one)], one, atol=1 / 32767)
    np.testing.assert_allclose(samples[-len(other) :], other, atol=1 / 32767)
    assert np.abs(np.diff(samples)).max() <= np.abs(np.diff(one)).max() + 2 / 32767
    assert pipeline.seconds == pytest.approx(len(samples) / RATE_HZ)


@pytest.mark.anyio
async def test_a_sample_that_is_no_number_does_not_spoil_the_pause() -> None:
    pipeline = AudioPipeline("pcm", RATE_HZ, RATE_HZ, 1.0, pause_seconds=0.05)

    pcm = await pipeline.push(np.array([0.5, np.nan], np.float32), begins_segment=True)
    pcm += await pipeline.push(np.array([np.inf, 0.5], np.float32), begins_segment=True)

    assert not np.frombuffer(pcm, "<i2")[1:-1].any()
