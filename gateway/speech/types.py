"""The words of a request: voice and job."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gateway.speech.span import NO_SPAN

if TYPE_CHECKING:
    import numpy.typing as npt

    from gateway.speech.deadline import Deadline
    from gateway.speech.span import Span
    from gateway.text.policy import TextPolicy

SAMPLE_RATE_HZ = 24_000
"""Rate of pcm and wav, whatever the model's: OpenAI's clients assume it."""
ANONYMOUS = "anonymous"
"""The caller's name where no key is asked for."""
GLOBAL_TOKENS = 32
"""How many tokens a voice is, as in the contract's `global_tokens`."""


@dataclass(frozen=True, eq=False)
class Reference:
    """A recording of a voice: float32 mono at 16 kHz, and what is said in it, where known."""

    samples: npt.NDArray[np.float32]
    transcript: str | None = None

    @cached_property
    def digest(self) -> str:
        """The samples' SHA-256."""
        return hashlib.sha256(self.samples.tobytes()).hexdigest()


@dataclass(frozen=True, slots=True)
class Labels:
    """What a model makes a voice from, in Spark-TTS's words."""

    gender: str
    pitch: str
    speed: str


@dataclass(frozen=True, slots=True)
class Voice:
    """What a caller may name as `voice`; without a `source` the model knows it by its id."""

    id: str
    model: str
    language: str | None = None
    source: Reference | Labels | None = None


@dataclass(frozen=True, slots=True, eq=False)
class VoiceTokens:
    """A voice as a model takes it: int32[32], and int32[n] for what its recording says."""

    global_tokens: npt.NDArray[np.int32]
    semantic_tokens: npt.NDArray[np.int32]

    @classmethod
    def of(cls, global_tokens: Any, semantic_tokens: Any) -> VoiceTokens:
        """Take them in any shape and type of whole numbers; raises ValueError for others."""
        voice = cls(_tokens(global_tokens), _tokens(semantic_tokens))
        if len(voice.global_tokens) != GLOBAL_TOKENS:
            raise ValueError(f"{len(voice.global_tokens)} global tokens, not {GLOBAL_TOKENS}")
        return voice


def _tokens(given: Any) -> npt.NDArray[np.int32]:
    array = np.asarray(given).reshape(-1)
    largest = np.iinfo(np.int32).max
    if len(array) == 0:
        return np.zeros(0, np.int32)
    if array.dtype.kind not in "iu" or array.min() < 0 or array.max() > largest:
        raise ValueError(f"tokens must be whole numbers from 0 to {largest}")
    return array.astype(np.int32)


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """What one Triton behind the service is now.

    `state` is connecting, ready, draining or ejected, for `state_seconds`; `last_error` was
    `last_error_seconds` ago. `models` are those of the settings that it has ready, and
    `set_aside` those of them that get nothing new, since they differ from the others'.
    """

    name: str
    address: str
    tls: str
    state: str
    state_seconds: float
    in_flight: int
    capacity: int
    ejections: int
    last_error: str
    last_error_seconds: float | None
    models: tuple[str, ...]
    set_aside: tuple[str, ...] = ()


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
    span: Span = NO_SPAN
