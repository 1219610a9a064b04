"""vLLM's logits processors, as `vllm.v1.sample.logits_processor` of 0.24.0 has them."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class LogitsProcessor:
    pass


BUILTIN_LOGITS_PROCESSORS: list[type] = []


@dataclass(frozen=True)
class BatchUpdate:
    """Who joined, left and moved; a place may be given to another without having been left."""

    batch_size: int
    removed: Iterable[int] = ()
    added: Iterable[tuple[int, Any, list[int], list[int]]] = ()
    moved: Iterable[tuple[int, int, MoveDirectionality]] = ()


class MoveDirectionality(enum.Enum):
    UNIDIRECTIONAL = 0
    SWAP = 1


def process_dict_updates(
    entries: dict[int, Any], update: BatchUpdate, new_state: Callable[..., Any]
) -> None:
    """Follow an update with what `new_state` keeps of each request, as vLLM's own does."""
    for index, *request in update.added:
        entries.pop(index, None)
        if (state := new_state(*request)) is not None:
            entries[index] = state
    for index in update.removed:
        entries.pop(index, None)
    for first, second, direction in update.moved:
        pair = entries.pop(first, None), entries.pop(second, None)
        if pair[0] is not None:
            entries[second] = pair[0]
        if pair[1] is not None and direction is MoveDirectionality.SWAP:
            entries[first] = pair[1]
