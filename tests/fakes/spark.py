"""Spark-TTS without weights: its vocabulary, and a decoder with its receptive field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from speech_backend.tokens import COUNTS, MARKS, SAMPLES_PER_TOKEN, TokenMap
from speech_backend.windows import FIELD_TOKENS

if TYPE_CHECKING:
    import numpy.typing as npt

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


WEIGHTS = np.random.default_rng(67).integers(1, 1000, 2 * FIELD_TOKENS + 1)
PHASES = np.arange(1, SAMPLES_PER_TOKEN + 1)


def sound(codes: npt.ArrayLike, voice: npt.ArrayLike = 0) -> npt.NDArray[np.float32]:
    """Decode as BiCodec does: 67 tokens to each side count, zeros beyond the edges.

    All is whole numbers, so the same context gives the same bits.
    """
    tokens = np.asarray(codes, np.int64) + 1 + np.sum(voice)
    whole = np.convolve(tokens, WEIGHTS)[FIELD_TOKENS : FIELD_TOKENS + len(tokens)]
    return np.outer(whole, PHASES).ravel().astype(np.float32)
