"""Which ids of Spark-TTS's language model are speech, read from the checkpoint's own files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError

if TYPE_CHECKING:
    from pathlib import Path

SEMANTIC_CODES = 8192
END_TOKENS = ("<|end_semantic_token|>", "<|im_end|>")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`size` ids; speech is SEMANTIC_CODES of them from `first_semantic_id`, and the two ends."""

    size: int
    first_semantic_id: int
    end_ids: tuple[int, ...]

    @property
    def speech_ids(self) -> tuple[int, ...]:
        """What the model may write once it speaks, the codes first."""
        codes = range(self.first_semantic_id, self.first_semantic_id + SEMANTIC_CODES)
        return (*codes, *self.end_ids)


def read_vocabulary(llm: Path) -> Vocabulary:
    """Read the folder LLM of a checkpoint; raises EngineError if it is not Spark-TTS's."""
    size = read_json(llm / "config.json").get("vocab_size")
    tokenizer = read_json(llm / "tokenizer.json")
    ids = _ids(tokenizer, llm)
    names = [f"<|bicodec_semantic_{code}|>" for code in range(SEMANTIC_CODES)]
    if missing := [name for name in (*names, *END_TOKENS) if name not in ids]:
        raise EngineError(
            f"{llm} is not Spark-TTS's language model: its tokenizer lacks {missing[0]}"
            + (f" and {len(missing) - 1} more" if missing[1:] else "")
        )
    first = ids[names[0]]
    if wrong := [name for code, name in enumerate(names) if ids[name] != first + code]:
        raise EngineError(
            f"{llm} has another vocabulary: {wrong[0]} is id {ids[wrong[0]]}, and the speech "
            f"tokens must follow each other from {first}"
        )
    highest = max(ids.values())
    if not isinstance(size, int) or highest >= size:
        raise EngineError(
            f"{llm} has another vocabulary: its tokenizer goes up to id {highest}, its weights "
            f"have {size} rows; take tokenizer and weights from one revision"
        )
    return Vocabulary(size, first, tuple(ids[name] for name in END_TOKENS))


def _ids(tokenizer: dict[str, Any], llm: Path) -> dict[str, int]:
    try:
        ids = dict(tokenizer.get("model", {}).get("vocab", {}))
        ids |= {token["content"]: token["id"] for token in tokenizer.get("added_tokens", ())}
        return {text: int(token_id) for text, token_id in ids.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EngineError(
            f"{llm / 'tokenizer.json'} is no tokenizer of the Hub's format ({error!r}); take it "
            "from the same revision as the weights"
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """Read an object; raises EngineError where there is none."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise EngineError(f"{path} is missing; is {path.parent} complete?") from None
    except (RecursionError, ValueError) as error:
        raise EngineError(f"{path} is no JSON ({error}); was it written to its end?") from error
    if not isinstance(values, dict):
        raise EngineError(f"{path} is no JSON object")
    return values
