"""The measurements of a request, on a clock that the test turns."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fakes.clock import Clock
from fakes.records import make_record
from gateway.audio.pipeline import AudioPipeline
from gateway.errors import (
    BackendFailedError,
    BackendTimeoutError,
    BackendUnavailableError,
    InvalidRequestError,
    MisconfiguredError,
    OverloadedError,
    SpeechError,
    UnknownModelError,
)
from gateway.speech.deadline import Deadline
from gateway.speech.record import OUTCOMES
from gateway.speech.segments import SegmentChunk
from gateway.speech.service import SpeechService, SpeechStream
from speech_wire import PcmChunk, SynthesisRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from gateway.speech.record import Outcome


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_times_count_from_acceptance() -> None:
    clock = Clock()
    record = make_record(clock)

    clock.now = 100.5
    record.received(0.25, 0.5)
    record.sent()
    clock.now = 101.0
    record.received(0.5, 0.5, "stop")
    record.sent()
    record.outcome = "finished"
    clock.now = 103.0
    record.close()

    assert record.first_audio_seconds == 0.5
    assert record.total_seconds == 3.0
    assert record.audio_seconds == 0.5
    assert record.finish_reason == "stop"


def test_the_wait_for_a_permit_is_its_own_time() -> None:
    clock = Clock()
    record = make_record(clock)
    before = record.admission_wait_seconds

    clock.now = 100.25
    record.admitted()
    clock.now = 103.0

    assert before is None
    assert record.admission_wait_seconds == 0.25


def test_audio_that_is_still_being_encoded_is_not_the_first_audio() -> None:
    record = make_record(Clock())

    record.received(0.25, 0.5)

    assert record.first_audio_seconds is None


@pytest.mark.parametrize(
    ("seconds", "peak", "suspicion"),
    [(1.0, 0.5, None), (0.05, 0.5, "too_short"), (1.0, 0.001, "silent"), (0.0, 0.0, "too_short")],
)
def test_audio_that_nobody_would_call_speech_is_suspect(
    seconds: float, peak: float, suspicion: str | None
) -> None:
    record = make_record(Clock())

    record.received(seconds, peak)

    assert record.suspicion is None
    record.outcome = "finished"
    assert record.suspicion == suspicion


def test_the_first_chunk_has_its_time_and_each_wait_for_another_is_a_gap() -> None:
    clock = Clock()
    record = make_record(clock)

    clock.now = 100.5
    record.arrived(None)
    clock.now = 103.0
    record.arrived(asked_at_seconds=102.0)

    assert record.first_chunk_seconds == 0.5
    assert (sum(record.gaps.counts), record.gaps.total) == (1, 1.0)


def test_a_finished_record_has_a_realtime_factor_from_its_permit_on() -> None:
    clock = Clock()
    record = make_record(clock)
    clock.now = 110.0
    record.admitted()
    record.received(4.0, 0.5)
    clock.now = 112.0
    record.close()

    assert record.realtime_factor is None
    record.outcome = "finished"
    assert record.realtime_factor == 0.5
    record.audio_seconds = 0.0
    assert record.realtime_factor is None


def test_a_record_knows_what_it_waits_for() -> None:
    record = make_record(Clock())
    stages = [record.stage]
    record.admitted()
    stages.append(record.stage)
    record.received(1.0, 0.5)
    stages.append(record.stage)
    record.sent()
    stages.append(record.stage)

    assert stages == ["admission", "first_audio", "first_audio", "streaming"]
    assert record.has_left


def test_each_moment_is_told_once_when_it_comes() -> None:
    clock = Clock()
    told: list[tuple[str, float]] = []
    record = make_record(clock)
    record.on_reached = lambda _, moment, seconds: told.append((moment, seconds))

    clock.now = 101.0
    record.admitted()
    for _ in range(2):
        clock.now += 1.0
        record.arrived(None)
        clock.now += 1.0
        record.sent()
    record.close()

    moments = [("admitted", 1.0), ("first_chunk", 2.0), ("first_audio", 3.0), ("closed", 5.0)]
    assert told == moments


@pytest.mark.parametrize(
    ("is_whole", "is_taken", "outcome", "seconds"),
    [
        (False, True, "failed", 3.8),
        (False, True, "cancelled", 3.8),
        (False, True, "finished", 0.0),
        (False, False, "cancelled", 0.0),
        (True, True, "failed", 0.0),
    ],
)
def test_a_listener_who_waited_in_vain_has_heard_silence(
    *, is_whole: bool, is_taken: bool, outcome: Outcome, seconds: float
) -> None:
    clock = Clock()
    record = make_record(clock)
    record.is_whole = is_whole
    record.received(1.0, 0.5)
    record.sent()
    if is_taken:
        record.taken()

    record.outcome = outcome
    clock.now = 105.0
    record.close()

    assert record.player.underrun_seconds == pytest.approx(seconds)


def test_a_running_record_has_no_total() -> None:
    assert make_record(Clock()).total_seconds == 0.0


def test_what_nobody_finished_or_failed_was_cancelled() -> None:
    record = make_record(Clock())

    record.close()

    assert record.outcome == "cancelled"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (InvalidRequestError, "rejected"),
        (UnknownModelError, "rejected"),
        (OverloadedError, "rejected"),
        (BackendTimeoutError, "timed_out"),
        (BackendFailedError, "failed"),
        (BackendUnavailableError, "failed"),
        (MisconfiguredError, "failed"),
    ],
)
def test_an_error_decides_the_outcome(error: type[SpeechError], outcome: str) -> None:
    record = make_record(Clock())

    record.fail(error("words"))

    assert record.outcome == outcome
    assert record.outcome in OUTCOMES


@pytest.mark.parametrize(("now", "left"), [(100.0, 5.0), (103.0, 2.0), (105.0, 0.0), (999.0, 0.0)])
def test_a_deadline_is_a_moment_and_never_negative(now: float, left: float) -> None:
    clock = Clock()
    deadline = Deadline.after(5, clock)

    clock.now = now

    assert deadline.remaining_seconds() == left


def second() -> PcmChunk:
    return PcmChunk(np.full(24_000, 0.5, np.float32), 24_000)


@pytest.mark.anyio
async def test_while_a_slow_listener_takes_nothing_no_underrun_is_counted() -> None:
    clock = Clock()
    record = make_record(clock)

    async def chunks() -> AsyncGenerator[SegmentChunk, None]:
        clock.now += 1.5
        yield SegmentChunk(second(), begins_segment=False)

    first = SegmentChunk(second(), begins_segment=True)
    pipeline = AudioPipeline("pcm", 24_000, 24_000, 1.0)
    stream = SpeechStream(record, first, chunks(), pipeline, AsyncExitStack())
    async for _ in stream.packets():
        clock.now += 60.0

    assert record.player.underrun_seconds == pytest.approx(0.3)


@pytest.mark.anyio
async def test_a_gap_is_the_models_time_and_not_that_of_who_takes_the_chunks() -> None:
    clock = Clock()
    record = make_record(clock)

    class FakeSpeaker:
        async def speak(self, *_: Any) -> AsyncGenerator[PcmChunk, None]:
            for samples in (24_000, 0, 24_000, 24_000):
                clock.now += 1.0
                yield PcmChunk(np.ones(samples, np.float32), 24_000)

    service = SpeechService(None, None, None, FakeSpeaker(), None)
    async for _ in service._speak(record, None, SynthesisRequest(""), "Hello."):
        clock.now += 60.0

    assert record.first_chunk_seconds == 1.0
    assert sum(record.gaps.counts) == 2
    assert record.gaps.total == 2.0
