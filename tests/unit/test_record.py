"""The measurements of a request, on a clock that the test turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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
from gateway.speech.record import OUTCOMES, SpeechRecord
from gateway.speech.types import SpeechJob
from gateway.telemetry.logging import log_record
from gateway.text.policy import TextPolicy

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make_record(clock: Callable[[], float], caller: str = "anonymous") -> SpeechRecord:
    job = SpeechJob(
        request_id="req_1",
        model="hibari",
        voice="heart",
        text="A secret.",
        audio_format="pcm",
        deadline=Deadline.after(600, clock),
        text_policy=TextPolicy(),
        caller=caller,
    )
    return SpeechRecord(job, clock)


def test_times_count_from_acceptance() -> None:
    clock = Clock()
    record = make_record(clock)

    clock.now = 100.5
    record.received(0.25, 0.5)
    record.sent()
    clock.now = 101.0
    record.received(0.5, 0.5, "stop")
    record.sent()
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


def test_the_log_line_names_the_caller_in_plain_characters(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO", "speech"):
        log_record(make_record(Clock(), "ali\nce"))

    [line] = caplog.messages
    assert r"caller='ali\nce' model=" in line


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


def test_the_log_line_has_the_reason_and_never_the_text(caplog: pytest.LogCaptureFixture) -> None:
    record = make_record(Clock())
    record.fail(BackendFailedError("words", detail="line one\nline two"))
    record.close()

    with caplog.at_level("INFO", "speech"):
        log_record(record)

    [line] = caplog.messages
    assert line.startswith(
        "speech.failed request_id=req_1 caller='anonymous' model=hibari voice='heart'"
    )
    assert "error=backend_failed" in line
    assert "\n" not in line
    assert "secret" not in line


@pytest.mark.parametrize(("now", "left"), [(100.0, 5.0), (103.0, 2.0), (105.0, 0.0), (999.0, 0.0)])
def test_a_deadline_is_a_moment_and_never_negative(now: float, left: float) -> None:
    clock = Clock()
    deadline = Deadline.after(5, clock)

    clock.now = now

    assert deadline.remaining_seconds() == left
