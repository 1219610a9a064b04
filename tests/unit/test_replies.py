from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fakes.pb_utils import FakePbUtils, FakeRequest
from speech_backend.replies import reply
from speech_backend.serving import InvalidInputError
from speech_wire import INVALID_INPUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest


class Doubler:
    """Doubles every `number` at once; 13 is the caller's fault, 0 its own."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def __call__(self, tensors: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        self.batches.append(len(tensors))
        numbers = [tensor["number"] for tensor in tensors]
        if any(13 in number for number in numbers):
            raise InvalidInputError("13 is not doubled")
        if any(0 in number for number in numbers):
            raise ZeroDivisionError("nothing to double")
        return [{"doubled": 2 * number[None]} for number in numbers]


def requests(*numbers: int) -> list[FakeRequest]:
    return [FakeRequest({"number": np.array([[number]])}, id=f"r{number}") for number in numbers]


def answer(double: Doubler, *numbers: int) -> list[Any]:
    return [
        response.error.message if response.error else response.arrays()["doubled"].tolist()
        for response in reply(FakePbUtils(), requests(*numbers), ["number"], double)
    ]


def test_all_requests_are_answered_at_once_and_in_order() -> None:
    double = Doubler()

    assert answer(double, 1, 2, 3) == [[[2]], [[4]], [[6]]]
    assert double.batches == [3]


def test_one_that_fails_fails_alone() -> None:
    double = Doubler()

    answers = answer(double, 1, 13, 2, 0)

    assert answers == [
        [[2]],
        f"{INVALID_INPUT}13 is not doubled",
        [[4]],
        "the model failed: ZeroDivisionError: nothing to double",
    ]
    assert double.batches == [4, 1, 1, 1, 1]


def test_a_missing_tensor_is_that_requests_failure() -> None:
    given = [FakeRequest({}), *requests(4)]

    refused, answered = reply(FakePbUtils(), given, ["number"], Doubler())

    assert refused.error is not None
    assert "the request has no number; render the model again" in refused.error.message
    assert answered.arrays()["doubled"].tolist() == [[8]]


def test_a_failure_is_logged_with_its_request_and_a_callers_fault_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answer(Doubler(), 13, 0)

    (record,) = caplog.records
    assert record.getMessage() == "request r0 failed"
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError
