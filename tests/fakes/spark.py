"""Spark-TTS without weights: its vocabulary, a clock, and models that write and sound by rule."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from speech_backend.stages import ReferenceTokens
from speech_backend.tokens import COUNTS, MARKS, SAMPLES_PER_TOKEN, TokenMap
from speech_backend.windows import FIELD_TOKENS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    import numpy.typing as npt

    from speech_backend.stages import Sampling

Ints: TypeAlias = "np.ndarray[Any, np.dtype[np.int32]]"

FIRST_IDS = {
    "bicodec_global": 151_665,
    "bicodec_semantic": 155_761,
    "pitch_value": 163_953,
    "pitch_label": 164_965,
    "speed_value": 164_975,
    "speed_label": 164_986,
    "gender": 165_032,
}


def vocabulary() -> dict[str, int]:
    """Return control tokens with Spark-TTS's own ids (marks: any that are free) and some text."""
    words = {
        f"<|{prefix}_{number}|>": first + number
        for prefix, first in FIRST_IDS.items()
        for number in range(COUNTS[prefix])
    }
    words |= {f"<|{name}|>": 165_136 + number for number, name in enumerate(MARKS)}
    return words | {"<|im_end|>": 151_645, "hello": 14_990, "<|>": 27_91}


TOKENS = TokenMap.from_vocabulary(vocabulary())


def mark(name: str) -> int:
    return TOKENS.marks[name]


def speech(codes: npt.ArrayLike) -> list[int]:
    """Return the ids of semantic codes."""
    return TOKENS.semantic_codes.ids(codes).tolist()


def listen(chunks: AsyncGenerator[Any, None]) -> list[Any]:
    """Return all that comes, in an event loop of its own."""

    async def collect() -> list[Any]:
        async with aclosing(chunks):
            return [chunk async for chunk in chunks]

    return asyncio.run(collect())


@dataclass
class FakeClock:
    """Seconds that pass only when somebody waits or works."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


WEIGHTS = np.random.default_rng(67).integers(1, 1000, 2 * FIELD_TOKENS + 1)
PHASES = np.arange(1, SAMPLES_PER_TOKEN + 1)


def sound(codes: npt.ArrayLike, voice: npt.ArrayLike = 0) -> npt.NDArray[np.float32]:
    """Decode as BiCodec does: 67 tokens to each side count, zeros beyond the edges.

    All is whole numbers, so the same context gives the same bits.
    """
    tokens = np.asarray(codes, np.int64) + 1 + np.sum(voice)
    whole = np.convolve(tokens, WEIGHTS)[FIELD_TOKENS : FIELD_TOKENS + len(tokens)]
    return np.outer(whole, PHASES).ravel().astype(np.float32)


@dataclass
class FakeStream:
    """Hands out scripted arrays of ids, each from its own second on; then ends, fails or waits."""

    clock: FakeClock
    script: list[tuple[float, list[int]]]
    error: Exception | None = None
    is_endless: bool = False
    closed: int = 0
    timeouts: list[float] = field(default_factory=list)
    waits: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def reads(self) -> int:
        return len(self.timeouts)

    async def read(self, timeout_seconds: float) -> Ints | None:
        assert not self.closed, "nobody reads a stream that is closed"
        self.timeouts.append(timeout_seconds)
        if self.script and self.script[0][0] > self.clock.now:
            self.clock.now = min(self.script[0][0], self.clock.now + timeout_seconds)
        came = [ids for at, ids in self.script if at <= self.clock.now]
        if not self.script and self.is_endless:
            self.waits.set()
            await asyncio.Event().wait()
        if not came and not self.script:
            if self.error is not None:
                raise self.error
            return None
        self.script = self.script[len(came) :]
        return np.array([token_id for ids in came for token_id in ids], np.int32)

    def close(self) -> None:
        self.closed += 1


@dataclass
class FakeStages:
    """Writes `ids` one every `seconds_per_id`, or up to those of `stops` when each says.

    Decodes with `sound` at a cost.
    """

    ids: list[int]
    seconds_per_id: float = 0.003
    decode_seconds: Callable[[int], float] = lambda _: 0.0
    group: int = 1
    error: Exception | None = None
    is_endless: bool = False
    stops: list[tuple[float, int]] = field(default_factory=list)
    decode_error: Exception | None = None
    clock: FakeClock = field(default_factory=FakeClock)
    streams: list[FakeStream] = field(default_factory=list)
    prompts: list[list[int]] = field(default_factory=list)
    samplings: list[Sampling] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    recordings: list[int] = field(default_factory=list)
    waits: asyncio.Event = field(default_factory=asyncio.Event)

    async def stream_tokens(self, prompt_ids: Ints, sampling: Sampling) -> FakeStream:
        self.prompts.append(prompt_ids.tolist())
        self.samplings.append(sampling)
        stops = self.stops or [
            (self.seconds_per_id * (first + self.group), first + self.group)
            for first in range(0, len(self.ids), self.group)
        ]
        starts = [0, *(stop for _, stop in stops)]
        script = [
            (self.clock.now + seconds, self.ids[start:stop])
            for start, (seconds, stop) in zip(starts, stops, strict=False)
        ]
        stream = FakeStream(self.clock, script, self.error, self.is_endless, waits=self.waits)
        self.streams.append(stream)
        return self.streams[-1]

    async def decode_window(
        self, semantic_tokens: Ints, length: int, kept: range, global_tokens: Ints
    ) -> npt.NDArray[np.float32]:
        if self.decode_error is not None:
            raise self.decode_error
        assert semantic_tokens.dtype == global_tokens.dtype == np.int32
        assert not semantic_tokens[length:].any()
        self.lengths.append(len(semantic_tokens))
        self.clock.now += self.decode_seconds(length)
        samples = sound(semantic_tokens[:length], global_tokens)
        return samples[kept.start * SAMPLES_PER_TOKEN : kept.stop * SAMPLES_PER_TOKEN]

    async def tokenise_reference(self, samples: npt.NDArray[np.float32]) -> ReferenceTokens:
        self.recordings.append(len(samples))
        count = len(samples) // SAMPLES_PER_TOKEN
        return ReferenceTokens(np.full(32, 7, np.int32), np.arange(count, dtype=np.int32))
