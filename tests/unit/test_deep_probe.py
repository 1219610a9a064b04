"""A word, really spoken: what is asked for it, and what its failure means."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fakes.triton import NO_SAMPLES, Script, tone
from gateway.backend.contracts import read_contract
from gateway.backend.deep_probe import speak_a_word, word_for
from gateway.errors import BackendFailedError, BackendTimeoutError, OverloadedError, SpeechError
from speech_wire import PcmChunk

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

SPARK = Script(voices=(), is_spark=True)
UPSTREAM = Script(is_batched=True, extra_inputs=("reference_wav", "reference_text"))


class FakeReplica:
    """One that says what it is told to."""

    def __init__(self, script: Script, *steps: Any) -> None:
        self.contracts = {"m": read_contract(script.config("m"), 16_000)}
        self.steps = steps
        self.asked: list[Any] = []
        self.is_closed = False

    async def stream(self, _: str, request: Any, __: Any) -> AsyncGenerator[PcmChunk, None]:
        self.asked.append(request)
        try:
            for step in self.steps:
                if isinstance(step, SpeechError):
                    raise step
                yield PcmChunk(step, 24_000, 0)
        finally:
            self.is_closed = True


def probe(replica: FakeReplica) -> SpeechError | None:
    return asyncio.run(speak_a_word(replica, "m"))  # type: ignore[arg-type]


def test_the_first_sound_is_enough() -> None:
    replica = FakeReplica(Script(), NO_SAMPLES, tone(), BackendFailedError("later"))

    assert probe(replica) is None
    assert replica.is_closed
    assert replica.asked[0].voice == "heart"


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ([BackendFailedError("boom")], "died"),
        ([BackendTimeoutError("silent")], "died"),
        ([np.zeros(0, np.float32)], "died"),
        ([], "died"),
        ([OverloadedError("full")], "busy"),
    ],
)
def test_without_sound_the_model_is_taken_for_dead_unless_it_is_busy(
    steps: list[Any], fault: str
) -> None:
    error = probe(FakeReplica(Script(), *steps))

    assert error is not None
    assert error.fault == fault


def test_a_model_without_voices_makes_one() -> None:
    [word] = [word_for(FakeReplica(SPARK).contracts["m"])]

    assert word is not None
    assert (word.gender, word.pitch, word.speed_label) == ("female", "moderate", "moderate")


def test_one_that_needs_a_recording_is_not_asked() -> None:
    replica = FakeReplica(UPSTREAM)

    assert probe(replica) is None
    assert replica.asked == []
