"""What keeps requests in vLLM's batch to the ids that they allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fakes.vllm_batch import BatchUpdate, MoveDirectionality
from fakes.vllm_model import request
from speech_backend.vllm_engine.allowed import AllowedIds
from speech_backend.vllm_engine.start import sampling_params

if TYPE_CHECKING:
    from fakes.vllm import SamplingParams

IDS = 10
SPEECH, OTHER = ((2, 4), (7, 7)), ((0, 1),)


class Logits(np.ndarray):
    """A tensor of torch's, as far as it is used; counts what is made beside it."""

    made: list[tuple[int, ...]]

    @classmethod
    def of(cls, requests: int) -> Logits:
        logits = np.ones((requests, IDS), np.float32).view(cls)
        logits.made = []
        return logits

    def new_full(self, shape: tuple[int, ...], value: float) -> Any:
        self.made.append(tuple(shape))
        return np.full(shape, value, np.float32)

    def new_zeros(self, shape: tuple[int, ...]) -> Any:
        return self.new_full(shape, 0.0)


def joins(index: int, allowed: tuple[tuple[int, int], ...] = ()) -> Any:
    params: SamplingParams = sampling_params(request(allowed_ids=allowed))
    # As it comes from another process.
    if params.extra_args is not None:
        params.extra_args = {n: [list(r) for r in v] for n, v in params.extra_args.items()}
    return index, params, [1], []


def left(held: AllowedIds, requests: int) -> list[list[int]]:
    """Return which ids of each request can still be written."""
    logits = held.apply(Logits.of(requests))
    assert {*logits.ravel().tolist()} <= {1.0, -np.inf}
    return [np.flatnonzero(row == 1).tolist() for row in logits]


EVERY = list(range(IDS))
KEPT, KEPT_OTHER = [2, 3, 4, 7], [0, 1]


@pytest.fixture
def held() -> AllowedIds:
    return AllowedIds(None, "cuda", True)


def test_nothing_is_forbidden_where_nobody_asks(held: AllowedIds) -> None:
    held.update_state(BatchUpdate(2, added=[joins(0), joins(1)]))
    logits = Logits.of(2)

    assert held.apply(logits) is logits
    assert (logits == 1).all()
    assert not logits.made


def test_those_who_allow_the_same_share_one_row(held: AllowedIds) -> None:
    held.update_state(BatchUpdate(3, added=[joins(i, SPEECH) for i in range(3)]))
    logits = Logits.of(3)

    held.apply(logits)

    assert logits.made == [(IDS,)]
    assert left(held, 3) == [KEPT] * 3


def test_each_is_held_to_its_own(held: AllowedIds) -> None:
    held.update_state(BatchUpdate(3, added=[joins(0, SPEECH), joins(1), joins(2, OTHER)]))

    assert left(held, 3) == [KEPT, EVERY, KEPT_OTHER]


def test_nothing_is_made_while_the_batch_is_the_same(held: AllowedIds) -> None:
    held.update_state(BatchUpdate(2, added=[joins(0, SPEECH), joins(1)]))
    held.apply(Logits.of(2))
    held.update_state(None)
    logits = Logits.of(2)

    held.apply(logits)

    assert not logits.made
    assert left(held, 2) == [KEPT, EVERY]


def made(held: AllowedIds, *update: Any, **changes: Any) -> list[tuple[int, ...]]:
    """Return what is made in the step after a change of the batch."""
    held.update_state(BatchUpdate(*update, **changes))
    logits = Logits.of(update[0])
    held.apply(logits)
    return logits.made


def test_a_row_is_made_once_for_those_who_come_and_go(held: AllowedIds) -> None:
    assert made(held, 1, added=[joins(0, SPEECH)]) == [(IDS,)]
    assert made(held, 2, added=[joins(1, SPEECH)]) == []
    assert made(held, 1, removed=[1]) == []
    assert made(held, 0, removed=[0]) == []
    assert made(held, 1, added=[joins(0, SPEECH)]) == []
    assert left(held, 1) == [KEPT]


def test_a_row_that_nobody_needs_is_let_go(held: AllowedIds) -> None:
    made(held, 1, added=[joins(0, SPEECH)])

    assert made(held, 1, added=[joins(0, OTHER)]) == [(IDS,)]
    assert made(held, 1, added=[joins(0, SPEECH)]) == [(IDS,)]


def test_one_who_asks_for_nothing_joins_those_who_do(held: AllowedIds) -> None:
    held.update_state(BatchUpdate(1, added=[joins(0, SPEECH)]))
    held.apply(Logits.of(1))

    held.update_state(BatchUpdate(2, added=[joins(1)]))

    assert left(held, 2) == [KEPT, EVERY]


def test_who_takes_anothers_place_is_not_held_to_anothers_ids(held: AllowedIds) -> None:
    held.update_state(BatchUpdate(2, added=[joins(0, SPEECH), joins(1, OTHER)]))

    held.update_state(BatchUpdate(2, added=[joins(0)]))

    assert left(held, 2) == [EVERY, KEPT_OTHER]


@pytest.mark.parametrize(
    ("direction", "size", "expected"),
    [
        (MoveDirectionality.UNIDIRECTIONAL, 1, [KEPT_OTHER]),
        (MoveDirectionality.SWAP, 2, [KEPT_OTHER, KEPT]),
    ],
)
def test_who_moves_takes_its_ids_along(
    held: AllowedIds, direction: MoveDirectionality, size: int, expected: list[list[int]]
) -> None:
    held.update_state(BatchUpdate(2, added=[joins(0, SPEECH), joins(1, OTHER)]))

    held.update_state(BatchUpdate(size, moved=[(1, 0, direction)]))

    assert left(held, size) == expected


def test_all_is_allowed_again_when_they_have_left(held: AllowedIds) -> None:
    held.update_state(BatchUpdate(2, added=[joins(0, SPEECH), joins(1)]))

    held.update_state(
        BatchUpdate(1, removed=[0], moved=[(1, 0, MoveDirectionality.UNIDIRECTIONAL)])
    )

    assert left(held, 1) == [EVERY]


def test_the_likeliest_id_is_taken_from_those_that_are_left(held: AllowedIds) -> None:
    assert not held.is_argmax_invariant()
