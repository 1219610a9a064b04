"""The contract of a language model: tensorrt_llm's names and shapes, so that it can stand in.

On the wire every tensor has a batch dimension, of 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from speech_wire.contract import ContractError, Tensors, TensorSpec
from speech_wire.messages import decode_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

GENERATION_INPUTS = (
    TensorSpec("input_ids", "INT32", (-1,), optional=False),
    TensorSpec("input_lengths", "INT32", (1,), optional=False),
    TensorSpec("request_output_len", "INT32", (1,), optional=False),
    TensorSpec("end_id", "INT32", (1,)),
    TensorSpec("pad_id", "INT32", (1,)),
    TensorSpec("stop_words_list", "INT32", (2, -1)),
    TensorSpec("streaming", "BOOL", (1,)),
    TensorSpec("stop", "BOOL", (1,)),
    TensorSpec("temperature", "FP32", (1,)),
    TensorSpec("runtime_top_k", "INT32", (1,)),
    TensorSpec("runtime_top_p", "FP32", (1,)),
    TensorSpec("repetition_penalty", "FP32", (1,)),
    TensorSpec("random_seed", "UINT64", (1,)),
    TensorSpec("min_length", "INT32", (1,)),
    # What newer releases call the two.
    TensorSpec("seed", "UINT64", (1,)),
    TensorSpec("min_tokens", "INT32", (1,)),
)
OWN_GENERATION_INPUTS = (
    *GENERATION_INPUTS,
    # The first and the last id of each range that may be written; all ids where it is missing.
    TensorSpec("allowed_ids", "INT32", (-1, 2)),
    # Nothing can be made of fewer at first; a model that is fast may gather them.
    TensorSpec("first_ids", "INT32", (1,)),
)
"""What a language model of ours takes, besides what tensorrt_llm does."""

GENERATION_OUTPUTS = (
    TensorSpec("output_ids", "INT32", (-1, -1), optional=False),
    TensorSpec("sequence_length", "INT32", (-1,), optional=False),
)


DRAWS_SEEDS = "draws_seeds"
"""A model that says so in its configuration draws anew for each request without a seed;
tensorrt_llm draws the same each time."""


@dataclass(frozen=True, slots=True, eq=False)
class GenerationRequest:
    """What a language model is to go on from, and how; the defaults are tensorrt_llm's.

    But for one: without a `seed` each request draws its own.

    `input_ids` is int32[n]; at most `max_new_tokens` ids are written, or up to one of `end_ids`
    but at least `min_new_tokens`. `top_k` 0 is all ids; with a `top_p` of 0 too it is the
    likeliest one. A `repetition_penalty` above 1 makes ids that were there less likely.
    `allowed_ids` are ranges, the last id included, and nothing else is written. Nothing can be
    made of fewer than `first_ids`, which the first answer may gather. Without `is_streaming` all
    ids come in one answer.
    """

    input_ids: npt.NDArray[np.int32]
    max_new_tokens: int
    end_ids: frozenset[int] = frozenset()
    min_new_tokens: int = 0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    is_streaming: bool = False
    allowed_ids: tuple[tuple[int, int], ...] = ()
    first_ids: int = 0

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, npt.NDArray[Any]]) -> GenerationRequest:
        """Read the arrays; raises ContractError on a missing, unknown or wrong one."""
        values = decode_tensors(OWN_GENERATION_INPUTS, _without_batch(tensors))
        given = {
            field: values[name]
            for name, field in (
                ("request_output_len", "max_new_tokens"),
                ("min_tokens", "min_new_tokens"),
                ("min_length", "min_new_tokens"),
                ("temperature", "temperature"),
                ("runtime_top_k", "top_k"),
                ("runtime_top_p", "top_p"),
                ("repetition_penalty", "repetition_penalty"),
                ("seed", "seed"),
                ("random_seed", "seed"),
                ("streaming", "is_streaming"),
                ("first_ids", "first_ids"),
            )
            if name in values
        }
        ranges = values.get("allowed_ids", np.zeros((0, 2), np.int32)).tolist()
        given["allowed_ids"] = tuple((first, last) for first, last in ranges)
        return cls(_input_ids(values), end_ids=_end_ids(values), **given)


def _without_batch(tensors: Mapping[str, npt.NDArray[Any]]) -> Tensors:
    for name, array in tensors.items():
        if array.shape[:1] != (1,):
            raise ContractError(
                f"tensor '{name}' has the shape {list(array.shape)}; its first dimension is the "
                "batch, and a request is one sequence"
            )
    return {name: array[0] for name, array in tensors.items()}


def _input_ids(values: Mapping[str, Any]) -> npt.NDArray[np.int32]:
    ids: npt.NDArray[np.int32] = values["input_ids"]
    length = values["input_lengths"]
    if not 0 < length <= len(ids):
        raise ContractError(f"tensor 'input_lengths' is {length}, of {len(ids)} input_ids")
    return ids[:length]


def _end_ids(values: Mapping[str, Any]) -> frozenset[int]:
    """Return what ends the output: `end_id` and the stop words, which must be one id each.

    Below each word's ids, the second row has the lengths of all words up to it, then -1.
    """
    words, ends = values.get("stop_words_list", np.zeros((2, 0), np.int32))
    count = int((ends > 0).sum())
    if ends[:count].tolist() != list(range(1, count + 1)):
        raise ContractError(
            f"tensor 'stop_words_list' has words that end at {ends[:count].tolist()}; this model "
            "takes words of one id each"
        )
    ids = {int(word) for word in words[:count]}
    return frozenset(ids | {values["end_id"]} if "end_id" in values else ids)


@dataclass(frozen=True, slots=True, eq=False)
class NewIds:
    """Ids that were just written, int32[n], without those of the input."""

    ids: npt.NDArray[np.int32]

    def to_tensors(self) -> Tensors:
        """Return the arrays with the dimensions batch and beam, both 1."""
        return {
            "output_ids": self.ids[None, None],
            "sequence_length": np.array([[len(self.ids)]], np.int32),
        }
