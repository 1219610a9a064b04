"""A request's record, on a clock that the test turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.speech.deadline import Deadline
from gateway.speech.record import SpeechRecord
from gateway.speech.types import SpeechJob
from gateway.text.policy import TextPolicy

if TYPE_CHECKING:
    from collections.abc import Callable


def make_record(
    clock: Callable[[], float], caller: str = "anonymous", voice: str = "heart"
) -> SpeechRecord:
    job = SpeechJob(
        request_id="req_1",
        model="hibari",
        voice=voice,
        text="A secret.",
        audio_format="pcm",
        deadline=Deadline.after(600, clock),
        text_policy=TextPolicy(),
        caller=caller,
    )
    return SpeechRecord(job, clock)
