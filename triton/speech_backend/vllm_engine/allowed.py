"""Requests held to the ids that they allow, inside vLLM's engine.

vLLM's own `allowed_token_ids` keeps a row of the whole vocabulary on the host for each request,
written, moved and cleared with all of the processor's cores, and copies every row to the GPU, from
memory that is not pinned, whenever a request joins or leaves. Here ranges come with the request,
and what they forbid is made on the GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from vllm.v1.sample.logits_processor import (
    BUILTIN_LOGITS_PROCESSORS,
    LogitsProcessor,
    process_dict_updates,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from speech_wire import GenerationRequest

Ranges: TypeAlias = "tuple[tuple[int, int], ...]"

ARGUMENT = "allowed_ids"
"""Among the `extra_args` of a request's SamplingParams."""


def allowed_arguments(request: GenerationRequest) -> dict[str, Any] | None:
    """Return the `extra_args` that hold a request to its ids."""
    return {ARGUMENT: request.allowed_ids} if request.allowed_ids else None


def install() -> None:
    """Have the batch that is made next in this process hold requests to their ids.

    It joins vLLM's own: for a custom one (`logits_processors`) each step would wait until the ids
    of the last one are on the host, whether it looks at them or not.
    """
    BUILTIN_LOGITS_PROCESSORS.append(AllowedIds)


class AllowedIds(LogitsProcessor):
    """Adds minus infinity to all other ids; ranges are lists of the first and the last id."""

    def __init__(self, *_: Any) -> None:
        self._allowed: dict[int, Ranges] = {}
        self._rows: dict[Ranges, Any] = {}
        self._bias: Any = None

    def is_argmax_invariant(self) -> bool:
        """Say that the likeliest id may be another one."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Follow who joins, leaves and moves in the batch."""
        if batch_update is not None:
            process_dict_updates(self._allowed, batch_update, _ranges)
            self._bias = None

    def apply(self, logits: Any) -> Any:
        """Forbid; `logits` is float32[requests, vocabulary]."""
        if self._allowed:
            if self._bias is None:
                self._bias = self._made(logits)
            logits += self._bias
        return logits

    def _made(self, logits: Any) -> Any:
        """Return what is added until the batch changes: one row where all allow the same.

        Rows of the batch before are taken again, and those that nobody needs now are let go.
        """
        before = self._rows
        self._rows = rows = {
            ranges: before[ranges] if ranges in before else _row(logits, ranges)
            for ranges in set(self._allowed.values())
        }
        if len(rows) == 1 and len(self._allowed) == len(logits):
            return next(iter(rows.values()))
        bias = logits.new_zeros(logits.shape)
        for index, ranges in self._allowed.items():
            bias[index] = rows[ranges]
        return bias


def _ranges(params: Any, *_: Any) -> Ranges | None:
    given: Mapping[str, Any] = params.extra_args or {}
    return tuple((first, last) for first, last in given.get(ARGUMENT, ())) or None


def _row(logits: Any, ranges: Ranges) -> Any:
    row = logits.new_full(logits.shape[1:], float("-inf"))
    for first, last in ranges:
        row[first : last + 1] = 0.0
    return row
