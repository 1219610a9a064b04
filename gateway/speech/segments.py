"""The segments of a text: made in order, one ahead of what the listener gets."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

from gateway.errors import BackendFailedError, InvalidRequestError, SpeechError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator

    from speech_wire import PcmChunk

AHEAD = 1


class SegmentChunk(NamedTuple):
    """A chunk with sound in it, and whether it is its segment's first."""

    chunk: PcmChunk
    begins_segment: bool


async def in_thread(segments: Iterator[str]) -> AsyncGenerator[str, None]:
    """Yield what the iterator yields, each made in a thread: normalising takes its time.

    Raises InvalidRequestError if there is nothing to speak.
    """
    segment = await asyncio.to_thread(next, segments, None)
    if segment is None or not any(character.isalnum() for character in segment):
        raise InvalidRequestError(
            "'input' has nothing to speak once markup, emoji and the like are taken out; "
            "POST /v1/audio/speech/preview shows what is left",
            param="input",
        )
    while segment is not None:
        yield segment
        segment = await asyncio.to_thread(next, segments, None)


async def speak_ahead(
    segments: AsyncIterable[str], speak: Callable[[str], AsyncGenerator[PcmChunk, None]]
) -> AsyncGenerator[SegmentChunk, None]:
    """Yield the chunks of all segments in order, each with one sample at least.

    The model works on one segment at a time. While a segment's chunks are taken, however
    slowly, the next one is made and kept, and never more than that. Raises InvalidRequestError
    if there is no sound at all, and BackendFailedError if a later segment has none.
    """
    ready: asyncio.Queue[SegmentChunk | None] = asyncio.Queue()
    free = asyncio.Semaphore(1 + AHEAD)
    making = asyncio.create_task(_make(segments, speak, ready, free))
    making.add_done_callback(lambda _: ready.put_nowait(None))
    is_first = True
    try:
        while (item := await ready.get()) is not None:
            if item.begins_segment and not is_first:
                free.release()
            is_first = False
            yield item
        making.result()
    finally:
        making.cancel()
        await asyncio.wait({making})
        # Whoever gave up does not want to know of an error either.
        _ = making.cancelled() or making.exception()


async def _make(
    segments: AsyncIterable[str],
    speak: Callable[[str], AsyncGenerator[PcmChunk, None]],
    ready: asyncio.Queue[SegmentChunk | None],
    free: asyncio.Semaphore,
) -> None:
    is_first = True
    async for segment in segments:
        await free.acquire()
        begins_segment = True
        async with aclosing(speak(segment.strip())) as chunks:
            async for chunk in chunks:
                if len(chunk.samples) or not begins_segment:
                    ready.put_nowait(SegmentChunk(chunk, begins_segment))
                    begins_segment = False
        if begins_segment:
            raise _no_audio(is_first=is_first)
        is_first = False


def _no_audio(*, is_first: bool) -> SpeechError:
    if not is_first:
        return BackendFailedError("the model made no audio for a part of the text")
    message = "the model made no audio from 'input'; is there a word in it?"
    return InvalidRequestError(message, param="input", code="no_audio")
