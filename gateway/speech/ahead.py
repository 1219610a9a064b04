"""Chunks that are made but not yet with the listener."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gateway.speech.flag import Flag
from gateway.speech.types import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from speech_wire import PcmChunk

MAX_AHEAD_SECONDS = 60.0
"""How much audio waits for a slow listener at most, 6 MB at 24 kHz; the model waits then."""
GATHER_SECONDS = 0.02
"""The shortest time between two packets: a model that is faster fills one with several chunks.

A packet of 20 ms of sound may come that late without being missed, and chunks are longer.
"""
MAX_PACKET_SECONDS = 1.0
"""How much sound goes out at once, so that a listener who is slow is waited for."""


class SegmentChunk(NamedTuple):
    """A chunk with sound in it, and whether it is its segment's first."""

    chunk: PcmChunk
    begins_segment: bool

    @property
    def seconds(self) -> float:
        """How long it sounds."""
        return len(self.chunk.samples) / (self.chunk.sample_rate_hz or SAMPLE_RATE_HZ)


class Ahead:
    """Chunks on their way from one who makes them to one who takes them."""

    def __init__(self, gather_seconds: float) -> None:
        self._gather_seconds = gather_seconds
        self._chunks: deque[SegmentChunk] = deque()
        self._seconds = 0.0
        self._next_at_seconds = 0.0
        self._loop = asyncio.get_running_loop()
        self._has_room = Flag()
        self._has_room.set()
        self._is_heard = Flag()
        self._has_some = Flag()
        self._is_due = Flag()
        self._has_ended = False

    async def put(self, item: SegmentChunk) -> None:
        """Add a chunk once there is room; return once the first is with the listener.

        Until then, making more would hold it up.
        """
        await self._has_room.wait()
        self._chunks.append(item)
        self._add(item.seconds)
        self._has_some.set()
        await self._is_heard.wait()

    def end(self) -> None:
        """Say that no more will come."""
        self._has_ended = True
        self._has_some.set()
        self._is_due.set()

    async def take(self) -> SegmentChunk | None:
        """Return what has come, up to the next segment, or None after the end."""
        await self._has_some.wait()
        await self._gather()
        if not self._chunks:
            return None
        parts = [self._pop()]
        seconds = parts[0].seconds
        while self._chunks and _goes_on(parts[0], self._chunks[0]) and seconds < MAX_PACKET_SECONDS:
            parts.append(self._pop())
            seconds += parts[-1].seconds
        if not (self._chunks or self._has_ended):
            self._has_some.clear()
        return _joined(parts)

    def is_with_listener(self) -> None:
        """Note that what was taken has been sent."""
        self._is_heard.set()
        self._next_at_seconds = self._loop.time() + self._gather_seconds

    async def _gather(self) -> None:
        seconds = self._next_at_seconds - self._loop.time()
        if seconds <= 0 or self._has_ended:
            return
        # An alarm, since a timeout of Python 3.10 may take a cancel in the same turn for its own.
        self._is_due.clear()
        alarm = self._loop.call_later(seconds, self._is_due.set)
        try:
            await self._is_due.wait()
        finally:
            alarm.cancel()

    def _pop(self) -> SegmentChunk:
        item = self._chunks.popleft()
        self._add(-item.seconds)
        return item

    def _add(self, seconds: float) -> None:
        self._seconds += seconds
        if self._seconds < MAX_AHEAD_SECONDS:
            self._has_room.set()
        else:
            self._has_room.clear()


def _goes_on(first: SegmentChunk, item: SegmentChunk) -> bool:
    same_rate = first.chunk.sample_rate_hz == item.chunk.sample_rate_hz
    return same_rate and not item.begins_segment


def _joined(parts: list[SegmentChunk]) -> SegmentChunk:
    if len(parts) == 1:
        return parts[0]
    samples = np.concatenate([part.chunk.samples for part in parts])
    reason = parts[-1].chunk.finish_reason
    chunk = replace(parts[0].chunk, samples=samples, finish_reason=reason)
    return parts[0]._replace(chunk=chunk)
