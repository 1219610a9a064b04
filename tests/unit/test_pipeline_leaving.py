"""Who leaves an utterance stops its language model, wherever it waits."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fakes.spark import TOKENS, FakeStages, mark, speech
from speech_backend.pipeline import SparkSpeaker
from speech_backend.prompts import Prompter
from speech_wire import SynthesisRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from speech_wire import PcmChunk

WAIT_SECONDS = 10
WRITTEN = [mark("start_semantic_token"), *speech(range(1000, 1400)), mark("im_end")]
CLONE = SynthesisRequest("A sentence.", global_tokens=np.arange(32, dtype=np.int32))


def speak(stages: FakeStages) -> AsyncGenerator[PcmChunk, None]:
    prompter = Prompter(TOKENS, lambda text: list(text.encode()))
    return SparkSpeaker(stages, TOKENS, prompter, 4096).synthesize(CLONE, stages.clock)


def test_closing_it_closes_the_stream_where_it_is() -> None:
    stages = FakeStages(WRITTEN)

    async def leave() -> int:
        async with aclosing(speak(stages)) as chunks:
            assert (await anext(chunks)).sample_offset == 0
            return stages.streams[0].reads

    reads = asyncio.run(leave())

    assert stages.streams[0].closed
    assert stages.streams[0].reads == reads


@pytest.mark.parametrize("written", [0, 60], ids=["nothing", "too little"])
def test_a_caller_who_leaves_stops_the_model_before_it_has_spoken(written: int) -> None:
    stages = FakeStages(WRITTEN[:written], is_endless=True)

    async def leave() -> None:
        listening = asyncio.create_task(anext(speak(stages)))
        await asyncio.wait_for(stages.waits.wait(), WAIT_SECONDS)
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening

    asyncio.run(leave())

    assert stages.streams[0].closed
    assert stages.lengths == []


def test_a_caller_who_leaves_while_a_window_is_decoded_stops_the_model() -> None:
    stages, decoding = FakeStages(WRITTEN), asyncio.Event()

    async def decode_for_ever(*_: Any) -> Any:
        decoding.set()
        await asyncio.Event().wait()

    stages.decode_window = decode_for_ever  # type: ignore[method-assign]

    async def leave() -> None:
        listening = asyncio.create_task(anext(speak(stages)))
        await asyncio.wait_for(decoding.wait(), WAIT_SECONDS)
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening

    asyncio.run(leave())

    assert stages.streams[0].closed
