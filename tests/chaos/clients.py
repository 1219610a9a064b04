"""Clients that ask again and again, and know of each answer whether it was right."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

from chaos.noise import VOICES, Said

if TYPE_CHECKING:
    from collections.abc import Iterator

RIGHT_STATUSES = {429, 503, 504}
"""What a caller may hear of a Triton that is ill: come back, elsewhere or later."""
GIVE_UP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How a request ended; moments are of time.monotonic."""

    said: Said
    began_at_seconds: float
    ended_at_seconds: float
    first_audio_seconds: float | None
    outcome: str
    """whole, broken, or the status with its code."""
    wrong: str | None
    """What must never be, whatever is ill."""


class Clients:
    """So many at once; `endings` grows until `stop`."""

    def __init__(self, url: str, count: int, deadline_seconds: float) -> None:
        self.endings: list[Ending] = []
        self._url = f"{url}/v1/audio/speech"
        self._count = count
        self._deadline_seconds = deadline_seconds
        self._numbers = itertools.count()
        self._is_over = False

    async def run(self) -> None:
        """Ask until `stop`, and return when all have their answers."""
        timeout = aiohttp.ClientTimeout(total=GIVE_UP_SECONDS)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            await asyncio.gather(*(self._ask_on(session) for _ in range(self._count)))

    def stop(self) -> None:
        """Ask no more."""
        self._is_over = True

    async def _ask_on(self, session: aiohttp.ClientSession) -> None:
        while not self._is_over:
            ending, pause_seconds = await self._ask(session, self._next())
            self.endings.append(ending)
            await asyncio.sleep(pause_seconds)

    def _next(self) -> Said:
        number = next(self._numbers)
        return Said(number, VOICES[number % len(VOICES)], 1 + number // len(VOICES) % 2)

    async def _ask(self, session: aiohttp.ClientSession, said: Said) -> tuple[Ending, float]:
        """Return how it ended, and for how long not to ask again."""
        hearing, began = _Hearing(said), time.monotonic()
        try:
            async with session.post(self._url, json=said.body()) as answer:
                await hearing.listen(answer)
        except aiohttp.ClientError as error:
            hearing.end("broken", f"{error!r} before any audio")
        except asyncio.TimeoutError:
            hearing.outcome, hearing.wrong = "hung", f"no end within {GIVE_UP_SECONDS:g} s"
        ended = time.monotonic()
        if hearing.wrong is None and ended - began > self._deadline_seconds + 1:
            hearing.wrong = f"{ended - began:.1f} s, and the deadline is {self._deadline_seconds:g}"
        first_audio = hearing.first_at_seconds and hearing.first_at_seconds - began
        ending = Ending(said, began, ended, first_audio, hearing.outcome, hearing.wrong)
        return ending, hearing.pause_seconds


class _Hearing:
    """What one client hears."""

    def __init__(self, said: Said) -> None:
        self.outcome = "broken"
        self.wrong: str | None = None
        self.first_at_seconds: float | None = None
        self.pause_seconds = 0.0
        self._said = said
        self._pcm = bytearray()

    async def listen(self, answer: aiohttp.ClientResponse) -> None:
        """Take the answer to its end; raises aiohttp.ClientError where it has none."""
        if answer.status == 200:
            async for piece in answer.content.iter_any():
                self.first_at_seconds = self.first_at_seconds or time.monotonic()
                self._pcm += piece
            self.end("whole", "a 200 without any audio")
            return
        self.outcome = f"{answer.status} {(await answer.json())['error']['code']}"
        self.wrong = None if answer.status in RIGHT_STATUSES else self.outcome
        self.pause_seconds = float(answer.headers.get("retry-after-ms", 1000)) / 1000

    def end(self, outcome: str, without_audio: str) -> None:
        """Judge what was heard."""
        self.outcome = outcome
        self.wrong = self._said.fault_of(bytes(self._pcm), is_whole=outcome == "whole")
        if not self._pcm:
            self.wrong = without_audio


def under_way(endings: list[Ending], start: float, end: float) -> Iterator[Ending]:
    """Yield those that were under way at any moment between these two."""
    return (e for e in endings if e.ended_at_seconds >= start and e.began_at_seconds <= end)
