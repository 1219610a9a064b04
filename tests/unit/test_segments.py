"""Segments: in order, one ahead and no more, every error in its place, nothing left behind."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import numpy as np
import pytest

from gateway.errors import BackendFailedError, InvalidRequestError, SpeechError
from gateway.speech.ahead import MAX_AHEAD_SECONDS
from gateway.speech.segments import speak_ahead, speakable
from speech_wire import PcmChunk

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

pytestmark = pytest.mark.anyio

NO_SAMPLES = np.zeros(0, np.float32)


class Model:
    """Says each letter of a text as one chunk, and notes what it was asked."""

    def __init__(self, misbehave: Callable[[str], None] = lambda _: None) -> None:
        self.misbehave = misbehave
        self.asked: list[str] = []
        self.ended: list[str] = []
        self.most_at_once = 0
        self.said = 0

    async def speak(self, text: str) -> AsyncGenerator[PcmChunk, None]:
        self.asked.append(text)
        self.most_at_once = max(self.most_at_once, len(self.asked) - len(self.ended))
        try:
            for letter in text:
                await asyncio.sleep(0)
                self.misbehave(letter)
                samples = NO_SAMPLES if letter == "_" else np.full(1, ord(letter), np.float32)
                self.said += 1
                yield PcmChunk(samples, 24_000)
        finally:
            self.ended.append(text)


async def settled() -> None:
    """Let every task run as far as it can."""
    for _ in range(100):
        await asyncio.sleep(0)


async def said(model: Model, *segments: str) -> list[tuple[str, bool]]:
    """Return each chunk's letter and whether it begins a segment."""
    async with aclosing(speak_ahead(iter(segments), model.speak, 0.0)) as chunks:
        return [(chr(int(chunk.samples[0])), begins) async for chunk, begins in chunks]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_segments_are_spoken_in_order_and_marked() -> None:
    model = Model()

    chunks = await said(model, "ab", "c", "de")

    assert chunks == [("a", True), ("b", False), ("c", True), ("d", True), ("e", False)]
    assert model.asked == ["ab", "c", "de"]
    assert model.most_at_once == 1


async def test_one_segment_is_made_ahead_and_no_more() -> None:
    model = Model()

    async with aclosing(speak_ahead(iter(["ab", "c", "d", "e"]), model.speak, 0.0)) as chunks:
        await anext(chunks)
        await anext(chunks)
        await settled()
        ahead_of_the_first = list(model.asked)
        await anext(chunks)
        await settled()
        ahead_of_the_second = list(model.asked)

    assert ahead_of_the_first == ["ab", "c"]
    assert ahead_of_the_second == ["ab", "c", "d"]


async def test_nothing_is_made_before_the_first_chunk_is_with_the_listener() -> None:
    model = Model()

    async with aclosing(speak_ahead(iter(["abc", "d"]), model.speak, 0.0)) as chunks:
        await anext(chunks)
        await settled()
        while_it_is_sent = (list(model.ended), model.said)
        await anext(chunks)
        await settled()

    assert while_it_is_sent == ([], 1)
    assert model.ended == ["abc", "d"]


async def test_a_minute_waits_for_a_slow_listener_and_no_more() -> None:
    made = 0

    async def speak(_: str) -> AsyncGenerator[PcmChunk, None]:
        nonlocal made
        for _ in range(1000):
            await asyncio.sleep(0)
            made += 1
            yield PcmChunk(np.zeros(24_000, np.float32), 24_000)

    async with aclosing(speak_ahead(iter(["a"]), speak, 0.0)) as chunks:
        await anext(chunks)
        await anext(chunks)
        await settled()
        while_the_second_is_played = made
        await anext(chunks)
        await settled()

    assert while_the_second_is_played == MAX_AHEAD_SECONDS + 3
    assert made == MAX_AHEAD_SECONDS + 4


async def test_what_is_around_a_segment_is_not_sent() -> None:
    model = Model()

    await said(model, "a. ", "b.\n\n")

    assert model.asked == ["a.", "b."]


async def test_a_failure_comes_after_what_was_made_before_it() -> None:
    def misbehave(letter: str) -> None:
        if letter == "x":
            raise BackendFailedError("boom")

    model = Model(misbehave)

    async with aclosing(speak_ahead(iter(["ab", "cx"]), model.speak, 0.0)) as chunks:
        heard = [chr(int((await anext(chunks)).chunk.samples[0])) for _ in range(3)]
        with pytest.raises(BackendFailedError, match="boom"):
            await anext(chunks)

    assert heard == ["a", "b", "c"]
    assert model.ended == ["ab", "cx"]


@pytest.mark.parametrize(
    ("segments", "error"),
    [
        pytest.param(["_"], InvalidRequestError, id="the only one"),
        pytest.param(["_", "a"], InvalidRequestError, id="the first"),
        pytest.param(["a", "_"], BackendFailedError, id="a later one"),
    ],
)
async def test_a_segment_without_sound_is_never_passed_over(
    segments: list[str], error: type[SpeechError]
) -> None:
    with pytest.raises(error) as caught:
        await said(Model(), *segments)

    assert type(caught.value) is error


@pytest.mark.parametrize("segments", [[], [""], ["!?", "..."]])
async def test_a_text_without_a_letter_is_refused(segments: list[str]) -> None:
    with pytest.raises(InvalidRequestError, match="nothing to speak"):
        speakable(iter(segments))


async def test_a_segment_of_marks_alone_never_reaches_the_model() -> None:
    assert list(speakable(iter(["...", "a", "!", "5", "  "]))) == ["a", "5"]


async def test_leaving_ends_the_model_and_every_task() -> None:
    model = Model()
    before = asyncio.all_tasks()

    async with aclosing(speak_ahead(iter(["abc", "def"]), model.speak, 0.0)) as chunks:
        await anext(chunks)

    assert model.ended == model.asked
    assert asyncio.all_tasks() == before
