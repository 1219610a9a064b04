"""What keeps requests in vLLM's batch to the ids that they allow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fakes.vllm_model import request
from fakes.vllm_sampler import GPUModelRunner
from speech_backend.vllm_engine.allowed import AllowedIds, hold_requests
from speech_backend.vllm_engine.start import sampling_params

if TYPE_CHECKING:
    from fakes.vllm import SamplingParams

IDS = 10
SPEECH, OTHER = ((2, 4), (7, 7)), ((0, 1),)
EVERY = list(range(IDS))
KEPT, KEPT_OTHER = [2, 3, 4, 7], [0, 1]


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


@pytest.fixture
def held() -> AllowedIds:
    return AllowedIds(8, "cuda:0")


def join(held: AllowedIds, place: int, allowed: tuple[tuple[int, int], ...] = ()) -> None:
    params: SamplingParams = sampling_params(request(allowed_ids=allowed))
    # As it comes from another process.
    if params.extra_args is not None:
        params.extra_args = {n: [list(r) for r in v] for n, v in params.extra_args.items()}
    held.add_request(place, 5, params)


def step(held: AllowedIds, *places: int) -> Logits:
    logits = Logits.of(len(places))
    at = np.array(places, np.int32)
    held.apply_logit_bias(logits, at, at, at)
    return logits


def left(held: AllowedIds, *places: int) -> list[list[int]]:
    """Return which ids of each request can still be written."""
    logits = step(held, *places)
    assert {*logits.ravel().tolist()} <= {1.0, -np.inf}
    return [np.flatnonzero(row == 1).tolist() for row in logits]


def test_nothing_is_forbidden_where_nobody_asks(held: AllowedIds) -> None:
    join(held, 0)
    join(held, 1)

    logits = step(held, 0, 1)

    assert (logits == 1).all()
    assert not logits.made


def test_those_who_allow_the_same_share_one_row(held: AllowedIds) -> None:
    for place in range(3):
        join(held, place, SPEECH)

    assert step(held, 0, 1, 2).made == [(IDS,)]
    assert left(held, 0, 1, 2) == [KEPT] * 3


def test_each_is_held_to_its_own_wherever_it_is_in_the_batch(held: AllowedIds) -> None:
    join(held, 0, SPEECH)
    join(held, 1)
    join(held, 5, OTHER)

    assert left(held, 0, 1, 5) == [KEPT, EVERY, KEPT_OTHER]
    assert left(held, 5, 0, 1) == [KEPT_OTHER, KEPT, EVERY]
    assert left(held, 1, 5) == [EVERY, KEPT_OTHER]
    assert left(held, 1) == [EVERY]


def test_nothing_is_made_while_the_batch_is_the_same(held: AllowedIds) -> None:
    join(held, 0, SPEECH)
    join(held, 1)
    step(held, 0, 1)

    assert not step(held, 0, 1).made
    assert left(held, 0, 1) == [KEPT, EVERY]


def test_a_row_is_made_once_for_those_who_come_and_go(held: AllowedIds) -> None:
    for place in range(2):
        join(held, place, SPEECH)

    assert step(held, 0).made == [(IDS,)]
    assert step(held, 0, 1).made == []
    assert step(held, 1).made == []
    assert left(held, 1) == [KEPT]


def test_a_row_that_nobody_needs_is_let_go(held: AllowedIds) -> None:
    join(held, 0, SPEECH)
    join(held, 1, OTHER)
    step(held, 0)

    assert step(held, 1).made == [(IDS,)]
    assert step(held, 0).made == [(IDS,)]


def test_who_takes_anothers_place_is_not_held_to_anothers_ids(held: AllowedIds) -> None:
    join(held, 0, SPEECH)
    join(held, 1, OTHER)
    step(held, 0, 1)

    join(held, 0)
    assert left(held, 0, 1) == [EVERY, KEPT_OTHER]

    join(held, 0, OTHER)
    assert left(held, 0, 1) == [KEPT_OTHER] * 2


def test_what_vllm_itself_adds_is_added(held: AllowedIds) -> None:
    held.add_request(0, 5, SimpleNamespace(extra_args=None, logit_bias={3: 2.0}))
    join(held, 1, SPEECH)

    assert step(held, 0, 1)[0].tolist() == [1, 1, 1, 3, 1, 1, 1, 1, 1, 1]


def test_a_loaded_runner_holds_requests() -> None:
    runner = GPUModelRunner()

    hold_requests(runner)

    join(runner.sampler.logit_bias_state, 7, SPEECH)
    assert left(runner.sampler.logit_bias_state, 7) == [KEPT]


def test_a_runner_that_samples_in_another_way_is_refused() -> None:
    """Its requests would write anything, and nobody would see why."""
    runner = GPUModelRunner()
    runner.sampler.logit_bias_state = object()

    with pytest.raises(TypeError, match="another way than vLLM"):
        hold_requests(runner)
    with pytest.raises(AttributeError):
        hold_requests(SimpleNamespace(max_num_reqs=8, device="cuda:0"))
