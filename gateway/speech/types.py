"""The words of a request: voice and job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.speech.deadline import Deadline
    from gateway.text.policy import TextPolicy

SAMPLE_RATE_HZ = 24_000
"""Rate of pcm and wav, whatever the model's: OpenAI's clients assume it."""
ANONYMOUS = "anonymous"
"""The caller's name where no key is asked for."""


@dataclass(frozen=True, slots=True)
class Voice:
    """What a caller may name as `voice`."""

    id: str
    model: str
    language: str | None = None


@dataclass(frozen=True, slots=True)
class TextLimits:
    """What a model says of the text that it takes; None where it says nothing.

    `scripts` are Unicode's names ("Latin", "Han") of those that it can read.
    """

    max_characters: int | None = None
    scripts: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SpeechJob:
    """An accepted request."""

    request_id: str
    model: str
    voice: str
    text: str
    audio_format: str
    deadline: Deadline
    text_policy: TextPolicy
    seed: int | None = None
    speed: float = 1.0
    pause_seconds: float = 0.0
    language: str | None = None
    caller: str = ANONYMOUS
