"""Spark-TTS's speaker, as the configuration of its Triton model describes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from speech_backend.pipeline import SparkSpeaker
from speech_backend.prompts import Prompter
from speech_backend.tokens import TokenMap
from speech_backend.windows import WindowPlan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from speech_backend.stages import Stages

WARM_UP_TEXT = "Warm up, 测试。"


def read_token_map(model_dir: Path) -> TokenMap:
    """Return the ids of the checkpoint's vocabulary; raises TokenMapError for another's."""
    return TokenMap.from_vocabulary(_tokenizer(model_dir).get_vocab())


def _tokenizer(model_dir: Path) -> Tokenizer:
    return Tokenizer.from_file(str(model_dir / "LLM" / "tokenizer.json"))


def load_speaker(stages: Stages, parameters: Mapping[str, str]) -> SparkSpeaker:
    """Read `LLM/tokenizer.json` below the parameter `model_dir`; all else is behind `stages`.

    `max_sequence_tokens` is the longest sequence that the language model takes, `look_ahead` and
    `first_chunk` are those of a WindowPlan. Raises TokenMapError where the tokenizer is not
    Spark-TTS's.
    """
    tokenizer = _tokenizer(Path(parameters["model_dir"]))
    tokens = TokenMap.from_vocabulary(tokenizer.get_vocab())

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    encode(WARM_UP_TEXT)
    prompter = Prompter(tokens, encode)
    limit = int(parameters["max_sequence_tokens"])
    return SparkSpeaker(stages, tokens, prompter, limit, _plan(parameters))


def _plan(parameters: Mapping[str, str]) -> WindowPlan:
    look_ahead, first_chunk = int(parameters["look_ahead"]), int(parameters["first_chunk"])
    return WindowPlan(look_ahead, first_chunk, min(first_chunk, WindowPlan().min_chunk))
