"""Spark-TTS's vocabulary: which id of the language model means which code or mark.

An *id* is a number of the language model's vocabulary, a *code* one of BiCodec's: 32 global
codes are a voice, one semantic code is 20 ms of speech. In the contract the codes are called
tokens. Ids are derived from the tokenizer and checked once; from then on all is arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from speech_backend.serving import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

SAMPLE_RATE_HZ = 16_000
TOKENS_PER_SECOND = 50
SAMPLES_PER_TOKEN = SAMPLE_RATE_HZ // TOKENS_PER_SECOND
GLOBAL_TOKENS = 32
"""How many codes make a voice."""

GENDERS = ("female", "male")
LEVELS = ("very_low", "low", "moderate", "high", "very_high")
"""Names of the labels, in the order of their numbers in the vocabulary."""

MARKS = (
    "task_tts",
    "task_controllable_tts",
    "start_content",
    "end_content",
    "start_style_label",
    "end_style_label",
    "start_acoustic_token",
    "end_acoustic_token",
    "start_global_token",
    "end_global_token",
    "start_semantic_token",
    "end_semantic_token",
    "im_end",
)
COUNTS = {
    "bicodec_global": 4096,
    "bicodec_semantic": 8192,
    "pitch_value": 1001,
    "speed_value": 11,
    "gender": len(GENDERS),
    "pitch_label": len(LEVELS),
    "speed_label": len(LEVELS),
}
"""Tokens that are counted: `<|gender_0|>`, `<|gender_1|>`, …"""

MAX_NAMES_IN_ERROR = 5


class TokenMapError(ValueError):
    """A tokenizer's vocabulary is not Spark-TTS's; the message names what does not fit."""


@dataclass(frozen=True, slots=True)
class CodeRange:
    """The codes 0 to `count` - 1, whose ids follow each other from `first_id`."""

    name: str
    first_id: int
    count: int

    def __contains__(self, token_id: int) -> bool:
        return self.first_id <= token_id < self.first_id + self.count

    def ids(self, codes: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """Return the ids of `codes`; raises InvalidInputError for one that does not exist."""
        numbers = np.asarray(codes, np.int64)
        if wrong := numbers[(numbers < 0) | (numbers >= self.count)].tolist():
            raise InvalidInputError(
                f"{self.name} tokens hold {wrong[0]}, allowed are 0 to {self.count - 1}"
            )
        return (numbers + self.first_id).astype(np.int32)

    def code(self, token_id: int) -> int:
        """Return the code of an id that is in this range."""
        return token_id - self.first_id


@dataclass(frozen=True, slots=True)
class TokenMap:
    """The ids that prompts are made of and that the language model writes.

    `marks` are the ids of MARKS; `genders`, `pitches` and `speeds` those of the labels by name;
    `acoustic_ids` what the model writes between a voice's labels and its codes; `names` tells
    the text of every id that is not plain text.
    """

    global_codes: CodeRange
    semantic_codes: CodeRange
    marks: Mapping[str, int]
    genders: Mapping[str, int]
    pitches: Mapping[str, int]
    speeds: Mapping[str, int]
    acoustic_ids: frozenset[int]
    names: Mapping[int, str]

    @classmethod
    def from_vocabulary(cls, vocabulary: Mapping[str, int]) -> TokenMap:
        """Derive the map from token text -> id, such as a tokenizer's `get_vocab()`.

        Raises TokenMapError if a token is missing or if codes do not follow each other.
        """
        _check_present(vocabulary)
        pitch_values = _code_range(vocabulary, "pitch_value")
        speed_values = _code_range(vocabulary, "speed_value")
        marks = {name: vocabulary[_text(name)] for name in MARKS}
        return cls(
            global_codes=_code_range(vocabulary, "bicodec_global"),
            semantic_codes=_code_range(vocabulary, "bicodec_semantic"),
            marks=marks,
            genders=_labels(vocabulary, "gender", GENDERS),
            pitches=_labels(vocabulary, "pitch_label", LEVELS),
            speeds=_labels(vocabulary, "speed_label", LEVELS),
            acoustic_ids=frozenset(
                [
                    marks["start_acoustic_token"],
                    marks["end_acoustic_token"],
                    *pitch_values.ids(range(pitch_values.count)).tolist(),
                    *speed_values.ids(range(speed_values.count)).tolist(),
                ]
            ),
            names={token_id: text for text, token_id in vocabulary.items() if _is_control(text)},
        )

    @property
    def stop_ids(self) -> tuple[int, int]:
        """Ids that end the output: trained sequences end with one or both of them."""
        return self.marks["end_semantic_token"], self.marks["im_end"]


def _text(name: str) -> str:
    return f"<|{name}|>"


def _is_control(text: str) -> bool:
    return len(text) > len("<||>") and text.startswith("<|") and text.endswith("|>")


def _needed() -> Iterator[str]:
    yield from MARKS
    for prefix, count in COUNTS.items():
        yield from (f"{prefix}_{number}" for number in range(count))


def _check_present(vocabulary: Mapping[str, int]) -> None:
    missing = [_text(name) for name in _needed() if _text(name) not in vocabulary]
    if missing:
        named = ", ".join(missing[:MAX_NAMES_IN_ERROR])
        more = f" and {len(missing) - MAX_NAMES_IN_ERROR} more"
        raise TokenMapError(
            f"the tokenizer lacks {named}{more if len(missing) > MAX_NAMES_IN_ERROR else ''}; "
            "is it the one from Spark-TTS's folder LLM?"
        )


def _code_range(vocabulary: Mapping[str, int], prefix: str) -> CodeRange:
    count = COUNTS[prefix]
    first = vocabulary[_text(f"{prefix}_0")]
    for number in range(count):
        text = _text(f"{prefix}_{number}")
        if vocabulary[text] != first + number:
            raise TokenMapError(
                f"{text} has the id {vocabulary[text]}, not {first + number}: "
                f"the ids of {prefix} must follow each other from {first}"
            )
    return CodeRange(prefix.removeprefix("bicodec_"), first, count)


def _labels(
    vocabulary: Mapping[str, int], prefix: str, names: tuple[str, ...]
) -> Mapping[str, int]:
    return {name: vocabulary[_text(f"{prefix}_{number}")] for number, name in enumerate(names)}
