"""The segments of a text: made in order, one ahead of what the listener gets."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from itertools import chain
from typing import TYPE_CHECKING

from gateway.errors import BackendFailedError, InvalidRequestError, SpeechError
from gateway.speech.ahead import GATHER_SECONDS, Ahead, SegmentChunk

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from speech_wire import PcmChunk

AHEAD = 1


def speakable(segments: Iterator[str]) -> Iterator[str]:
    """Return the segments with a letter or digit in them; raises InvalidRequestError without one.

    What has none is a row of marks, longer than a segment: silence to a reader, an error to a
    model.
    """
    spoken = filter(_has_letter, segments)
    first = next(spoken, None)
    if first is None:
        raise InvalidRequestError(
            "'input' has nothing to speak once markup, emoji and the like are taken out; "
            "POST /v1/audio/speech/preview shows what is left",
            param="input",
        )
    return chain([first], spoken)


def _has_letter(segment: str) -> bool:
    return any(character.isalnum() for character in segment)


async def speak_ahead(
    segments: Iterator[str],
    speak: Callable[[str], AsyncGenerator[PcmChunk, None]],
    gather_seconds: float = GATHER_SECONDS,
) -> AsyncGenerator[SegmentChunk, None]:
    """Yield the chunks of all segments in order, each with one sample at least.

    After one has been taken, those that come within `gather_seconds` are joined. The model
    works on one segment at a time. While a segment's chunks are taken, however slowly, the
    next one is made and kept, and never more than that, nor more than MAX_AHEAD_SECONDS.
    Raises InvalidRequestError if there is no sound at all, and
    BackendFailedError if a later segment has none.
    """
    ahead = Ahead(gather_seconds)
    free = asyncio.Semaphore(1 + AHEAD)
    making = asyncio.create_task(_make(segments, speak, ahead, free))
    making.add_done_callback(lambda _: ahead.end())
    is_first = True
    try:
        while (item := await ahead.take()) is not None:
            if item.begins_segment and not is_first:
                free.release()
            is_first = False
            yield item
            ahead.is_with_listener()
            del item
        making.result()
    finally:
        making.cancel()
        await asyncio.wait({making})
        # Whoever gave up does not want to know of an error either.
        _ = making.cancelled() or making.exception()


async def _make(
    segments: Iterator[str],
    speak: Callable[[str], AsyncGenerator[PcmChunk, None]],
    ahead: Ahead,
    free: asyncio.Semaphore,
) -> None:
    is_first = True
    for segment in segments:
        await free.acquire()
        begins_segment = True
        async with aclosing(speak(segment.strip())) as chunks:
            async for chunk in chunks:
                if len(chunk.samples) or not begins_segment:
                    await ahead.put(SegmentChunk(chunk, begins_segment))
                    begins_segment = False
                del chunk
        if begins_segment:
            raise _no_audio(is_first=is_first)
        is_first = False


def _no_audio(*, is_first: bool) -> SpeechError:
    if not is_first:
        return BackendFailedError("the model made no audio for a part of the text")
    message = "the model made no audio from 'input'; is there a word in it?"
    return InvalidRequestError(message, param="input", code="no_audio")
