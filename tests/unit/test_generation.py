from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from speech_wire import ContractError, GenerationRequest, NewIds

Tensors = dict[str, Any]


def scalar(value: float, dtype: str) -> np.ndarray[Any, Any]:
    return np.array([[value]], dtype)


def tensors(**more: Any) -> Tensors:
    """Return a request as a client of tensorrt_llm sends it."""
    return {
        "input_ids": np.array([[5, 6, 7]], np.int32),
        "input_lengths": scalar(3, "int32"),
        "request_output_len": scalar(9, "int32"),
        **more,
    }


def test_what_is_not_given_is_as_with_tensorrt_llm() -> None:
    request = GenerationRequest.from_tensors(tensors())

    assert request.input_ids.tolist() == [5, 6, 7]
    assert (request.max_new_tokens, request.end_ids, request.min_new_tokens) == (9, set(), 0)
    assert (request.temperature, request.top_k, request.top_p) == (1.0, 0, 0.0)
    assert (request.repetition_penalty, request.seed, request.is_streaming) == (1.0, None, False)


@pytest.mark.parametrize(
    ("seed", "min_length"), [("random_seed", "min_length"), ("seed", "min_tokens")]
)
def test_all_inputs_are_read_under_both_releases_names(seed: str, min_length: str) -> None:
    request = GenerationRequest.from_tensors(
        tensors(
            end_id=scalar(3, "int32"),
            pad_id=scalar(0, "int32"),
            streaming=np.array([[True]]),
            stop=np.array([[False]]),
            temperature=scalar(0.5, "float32"),
            runtime_top_k=scalar(50, "int32"),
            runtime_top_p=scalar(0.25, "float32"),
            repetition_penalty=scalar(1.5, "float32"),
            **{seed: scalar(2**63 + 1, "uint64"), min_length: scalar(4, "int32")},
        )
    )

    assert (request.end_ids, request.min_new_tokens, request.seed) == ({3}, 4, 2**63 + 1)
    assert (request.temperature, request.top_k, request.top_p) == (0.5, 50, 0.25)
    assert (request.repetition_penalty, request.is_streaming) == (1.5, True)


def test_input_ids_end_at_their_length() -> None:
    request = GenerationRequest.from_tensors(tensors(input_lengths=scalar(2, "int32")))

    assert request.input_ids.tolist() == [5, 6]


def test_stop_words_of_one_id_end_the_output_too() -> None:
    words = np.array([[[8, 9, 0], [1, 2, -1]]], np.int32)

    request = GenerationRequest.from_tensors(
        tensors(end_id=scalar(3, "int32"), stop_words_list=words)
    )

    assert request.end_ids == {3, 8, 9}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"input_lengths": scalar(0, "int32")}, "'input_lengths' is 0, of 3 input_ids"),
        ({"input_lengths": scalar(4, "int32")}, "'input_lengths' is 4, of 3 input_ids"),
        ({"input_ids": np.zeros((2, 3), np.int32)}, "'input_ids' has the shape .2, 3.; its first"),
        ({"temperature": np.zeros((), np.float32)}, "'temperature' has the shape ..;"),
        ({"temperature": scalar(1, "float64")}, "'temperature' is float64.1., the contract wants"),
        ({"beam_width": scalar(2, "int32")}, r"unknown tensors \['beam_width'\]"),
        (
            {"stop_words_list": np.array([[[8, 9], [2, -1]]], np.int32)},
            r"words that end at \[2\]; this model takes words of one id",
        ),
    ],
)
def test_what_does_not_fit_is_named(wrong: Tensors, words: str) -> None:
    with pytest.raises(ContractError, match=words):
        GenerationRequest.from_tensors(tensors(**wrong))


def test_new_ids_have_the_dimensions_batch_and_beam() -> None:
    sent = NewIds(np.array([1, 2], np.int32)).to_tensors()

    assert {name: (a.tolist(), a.dtype.name) for name, a in sent.items()} == {
        "output_ids": ([[[1, 2]]], "int32"),
        "sequence_length": ([[2]], "int32"),
    }
