"""Who leaves a call that others may wait for in the same loop: no RPC is cut by that."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np

from fakes.near import NearStages
from fakes.script import Abort
from fakes.stages import Behaviour, FakeStages, Pause, Wrote
from speech_backend.stages import Sampling

if TYPE_CHECKING:
    from collections.abc import Coroutine

    import pytest

SAMPLING = Sampling(max_new_tokens=40, stop_ids=(9, 8))
PROMPT = np.array([5, 6, 7], np.int32)
VOICE = np.arange(32, dtype=np.int32)
LONG_SECONDS = 10.0


async def left(work: Coroutine[Any, Any, Any], when: Coroutine[Any, Any, Any]) -> bool:
    """Cancel `work` once `when` has happened; return whether that ended it."""
    task = asyncio.create_task(work)
    await asyncio.sleep(0)
    await when
    task.cancel()
    await asyncio.wait({task})
    return task.cancelled()


async def nothing() -> None:
    pass


def test_a_reader_who_leaves_takes_nothing_from_the_stream(
    far: FakeStages, stages: NearStages
) -> None:
    pause = Pause()
    far.behaviour = Behaviour([pause, Wrote([1, 2]), Wrote([3])])
    stream = stages.stream_tokens(PROMPT, SAMPLING)

    assert stages.run(left(stream.call.read(LONG_SECONDS), nothing()))
    pause.set()
    stream.join()

    assert stream.read(0).tolist() == [1, 2, 3]
    assert stream.read(0) is None
    assert far.cut.count == 0


def test_a_window_that_nobody_waits_for_is_not_cut(far: FakeStages, stages: NearStages) -> None:
    """Cancelling the RPC could crash Triton 2.51."""
    hold = Pause()
    far.behaviour = Behaviour(answer={"waveform": VOICE}, hold=hold)

    asked = asyncio.to_thread(far.asked.wait)
    assert stages.run(left(stages.stages.decode_window(VOICE, 2, range(2), VOICE), asked))
    # What is sent after it arrives after it, so a cut would be known by now.
    stages.run(stages.stages._sibling("audio_tokenizer"))
    hold.set()

    assert far.ended.wait()
    assert far.cut.count == 0


def test_closing_waits_for_a_window_that_nobody_waits_for(far: FakeStages) -> None:
    near, hold = NearStages(far.address), Pause()
    far.behaviour = Behaviour(answer={"waveform": VOICE}, hold=hold)
    asked = asyncio.to_thread(far.asked.wait)
    near.run(left(near.stages.decode_window(VOICE, 2, range(2), VOICE), asked))

    async def close() -> int:
        closing = asyncio.create_task(near.stages.close())
        await asyncio.sleep(0)
        hold.set()
        await closing
        return far.ended.count

    assert near.run(close()) == 1
    assert far.cut.count == 0
    near.close()


def test_windows_that_nobody_waits_for_take_room(far: FakeStages) -> None:
    """Else the queues of the stages run over, and utterances fail that nobody has left."""
    near, hold = NearStages(far.address, at_once=2), Pause()
    far.behaviour = Behaviour(answer={"waveform": VOICE}, hold=hold)
    for count in (1, 2):
        asked = asyncio.to_thread(far.asked.wait, count)
        near.run(left(near.stages.decode_window(VOICE, 2, range(2), VOICE), asked))

    async def third() -> tuple[int, int]:
        waiting = asyncio.create_task(near.stages.decode_window(VOICE, 2, range(2), VOICE))
        await asyncio.sleep(0)
        running = len(near.stages._running)
        hold.set()
        return running, len(await waiting)

    assert near.run(third()) == (2, len(VOICE))
    assert far.asked.count == 3
    near.close()


def test_a_failure_that_nobody_waits_for_is_no_noise(
    far: FakeStages, stages: NearStages, caplog: pytest.LogCaptureFixture
) -> None:
    hold = Pause()
    far.behaviour = Behaviour(answer=Abort(grpc.StatusCode.UNAVAILABLE, "stopping"), hold=hold)
    asked = asyncio.to_thread(far.asked.wait)
    stages.run(left(stages.stages.decode_window(VOICE, 2, range(2), VOICE), asked))

    async def ended() -> None:
        (running,) = stages.stages._running
        hold.set()
        await asyncio.wait({running})

    stages.run(ended())
    gc.collect()

    assert not caplog.records
