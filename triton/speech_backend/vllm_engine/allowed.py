"""Requests held to the ids that they allow, inside vLLM's engine.

vLLM's own `allowed_token_ids` takes 1 024 ids at most in this runner, and Spark-TTS's speech is
8 192. Here ranges come with the request, and what they forbid is made on the GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from vllm.v1.worker.gpu.sample.logit_bias import LogitBiasState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from speech_wire import GenerationRequest

Ranges: TypeAlias = "tuple[tuple[int, int], ...]"

ARGUMENT = "allowed_ids"
"""Among the `extra_args` of a request's SamplingParams."""


def allowed_arguments(request: GenerationRequest) -> dict[str, Any] | None:
    """Return the `extra_args` that hold a request to its ids."""
    return {ARGUMENT: request.allowed_ids} if request.allowed_ids else None


def hold_requests(runner: Any) -> None:
    """Have a model runner, whose model is loaded, hold requests to their ids.

    Raises TypeError or AttributeError for one that samples in another way: all ids would pass.
    """
    held = AllowedIds(runner.max_num_reqs, runner.device)
    if not isinstance(runner.sampler.logit_bias_state, LogitBiasState):
        raise TypeError(f"{runner.sampler!r} biases logits in another way than vLLM 0.24.0")
    runner.sampler.logit_bias_state = held


class AllowedIds(LogitBiasState):
    """Adds minus infinity to all other ids; a request keeps its place while it runs.

    One that loses its memory for a while is added again, in any place.
    """

    def __init__(self, places: int, device: Any) -> None:
        super().__init__(places, device)
        self._allowed: dict[int, Ranges] = {}
        self._asked: list[Ranges | None] = []
        self._rows: dict[Ranges, Any] = {}
        self._bias: Any = None

    def add_request(self, place: int, prompt_len: int, params: Any) -> None:
        """Take a request into a place that another one has left."""
        super().add_request(place, prompt_len, params)
        self._allowed.pop(place, None)
        if ranges := _ranges(params):
            self._allowed[place] = ranges

    def apply_logit_bias(self, logits: Any, on_gpu: Any, places: Any, positions: Any) -> None:
        """Forbid; `logits` is float32[requests, vocabulary], `places` int32[requests]."""
        super().apply_logit_bias(logits, on_gpu, places, positions)
        if not self._allowed:
            return
        asked = [self._allowed.get(place) for place in places.tolist()]
        if not any(asked):
            return
        if asked != self._asked:
            self._asked, self._bias = asked, self._made(logits, asked)
        logits += self._bias

    def _made(self, logits: Any, asked: list[Ranges | None]) -> Any:
        """Return what is added: one row where all allow the same.

        Rows of the batch before are taken again, and those that nobody needs now are let go.
        """
        before = self._rows
        self._rows = rows = {
            ranges: before[ranges] if ranges in before else _row(logits, ranges)
            for ranges in {*asked}
            if ranges is not None
        }
        if len({*asked}) == 1:
            return next(iter(rows.values()))
        bias = logits.new_zeros(logits.shape)
        for index, ranges in enumerate(asked):
            if ranges is not None:
                bias[index] = rows[ranges]
        return bias


def _ranges(params: Any) -> Ranges:
    given: Mapping[str, Any] = params.extra_args or {}
    return tuple((first, last) for first, last in given.get(ARGUMENT, ()))


def _row(logits: Any, ranges: Ranges) -> Any:
    row = logits.new_full(logits.shape[1:], float("-inf"))
    for first, last in ranges:
        row[first : last + 1] = 0.0
    return row
