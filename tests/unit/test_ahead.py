"""Chunks on their way: what comes close together leaves together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fakes.clock import in_virtual_time
from gateway.speech.ahead import MAX_PACKET_SECONDS, Ahead, SegmentChunk
from speech_wire import PcmChunk

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio

LONG_SECONDS = 60.0
"""No test waits that long: what is taken earlier was not waited for."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def chunk(
    *samples: float, begins_segment: bool = False, rate_hz: int = 24_000, reason: str | None = None
) -> SegmentChunk:
    array = np.array(samples, np.float32)
    return SegmentChunk(PcmChunk(array, rate_hz, finish_reason=reason), begins_segment)


async def ahead_after_the_first(gather_seconds: float = LONG_SECONDS) -> Ahead:
    """Return one whose first chunk is with the listener."""
    ahead = Ahead(gather_seconds)
    putting = asyncio.ensure_future(ahead.put(chunk(0.5, begins_segment=True)))
    first = await ahead.take()
    assert first is not None
    assert first.begins_segment
    ahead.is_with_listener()
    await putting
    return ahead


async def test_the_first_chunk_waits_for_no_other() -> None:
    ahead = Ahead(LONG_SECONDS)
    putting = asyncio.ensure_future(ahead.put(chunk(0.5, begins_segment=True)))

    taken = await asyncio.wait_for(ahead.take(), 1)

    assert taken is not None
    assert not putting.done()
    putting.cancel()


async def test_what_comes_soon_after_is_one_with_the_reason_of_the_last() -> None:
    ahead = await ahead_after_the_first()
    await ahead.put(chunk(1.0))
    taking = asyncio.ensure_future(ahead.take())
    await ahead.put(chunk(2.0, 3.0, reason="stop"))
    await asyncio.sleep(0)
    assert not taking.done()

    ahead.end()
    taken = await asyncio.wait_for(taking, 1)

    assert taken is not None
    assert taken.chunk.samples.tolist() == [1.0, 2.0, 3.0]
    assert taken.chunk.finish_reason == "stop"
    assert await ahead.take() is None


async def test_it_leaves_after_that_time_though_the_model_goes_on() -> None:
    ahead = await ahead_after_the_first(gather_seconds=0.01)
    await ahead.put(chunk(1.0))

    taken = await asyncio.wait_for(ahead.take(), 1)

    assert taken is not None
    assert taken.chunk.samples.tolist() == [1.0]


@pytest.mark.parametrize("other", [chunk(9.0, begins_segment=True), chunk(9.0, rate_hz=16_000)])
async def test_a_new_segment_and_another_rate_stay_apart(other: SegmentChunk) -> None:
    ahead = await ahead_after_the_first(gather_seconds=0.0)
    await ahead.put(chunk(1.0))
    await ahead.put(other)

    taken = [await ahead.take(), await ahead.take()]
    assert [item.chunk.samples.tolist() for item in taken if item] == [[1.0], [9.0]]


async def test_a_packet_has_a_second_of_sound_and_not_much_more() -> None:
    ahead = await ahead_after_the_first(gather_seconds=0.0)
    for _ in range(10):
        await ahead.put(chunk(*[0.0] * 12_000))

    taken = await ahead.take()

    assert taken is not None
    assert taken.seconds == MAX_PACKET_SECONDS


@pytest.mark.parametrize("is_planned_before", [True, False])
def test_one_who_is_cancelled_just_when_the_wait_is_over_ends(*, is_planned_before: bool) -> None:
    """As when a listener leaves then: a timeout of Python 3.10 would swallow it."""

    async def is_cancelled(clock: Callable[[], float]) -> bool:
        ahead = await ahead_after_the_first(gather_seconds=1.0)
        over_at_seconds = clock() + 1.0
        await ahead.put(chunk(1.0))
        taking = asyncio.ensure_future(ahead.take())
        if not is_planned_before:
            await asyncio.sleep(0)
        asyncio.get_running_loop().call_at(over_at_seconds, taking.cancel)
        await asyncio.wait({taking})
        return taking.cancelled()

    assert in_virtual_time(is_cancelled)
