"""Who gets a call: power of two choices, contracts that lead, and whether to try again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from gateway.backend.attempts import MAX_ATTEMPTS, Attempts
from gateway.backend.choice import leading, least_loaded_of_two
from gateway.backend.classify import CONSEQUENCES, Elsewhere
from gateway.errors import FAULTS, BackendUnavailableError, Fault
from gateway.speech.deadline import Deadline


@dataclass
class One:
    in_flight: int
    capacity: int
    share: float = 1.0


def test_the_less_loaded_of_two_is_chosen_by_its_share() -> None:
    small, large = One(1, 2), One(3, 16)

    assert least_loaded_of_two([small, large], Random(1)) is large
    assert least_loaded_of_two([large, small], Random(1)) is large


def test_full_ones_are_not_chosen() -> None:
    full, free = One(4, 4), One(3, 4)

    assert least_loaded_of_two([full, free], Random(1)) is free
    assert least_loaded_of_two([full], Random(1)) is None
    assert least_loaded_of_two([], Random(1)) is None


def test_calls_that_do_not_end_are_spread_evenly() -> None:
    those = [One(0, 100) for _ in range(10)]
    rng = Random(7)

    for _ in range(500):
        chosen = least_loaded_of_two(those, rng)
        assert chosen is not None
        chosen.in_flight += 1

    assert all(45 <= one.in_flight <= 55 for one in those)


@pytest.mark.parametrize(("share", "calls"), [(0.1, 50), (0.5, 183), (1.0, 275)])
def test_one_that_starts_slowly_gets_its_share_of_the_load(share: float, calls: int) -> None:
    """Of 550 calls that do not end, as many as its share is of all shares."""
    old, new = One(0, 1000), One(0, 1000, share)
    rng = Random(7)

    for _ in range(550):
        chosen = least_loaded_of_two([old, new], rng)
        assert chosen is not None
        chosen.in_flight += 1

    assert abs(new.in_flight - calls) <= 1


def test_of_two_without_any_call_the_one_that_starts_slowly_waits() -> None:
    old, new = One(0, 16), One(0, 16, 0.1)

    chosen = {id(least_loaded_of_two([old, new], Random(seed))) for seed in range(20)}

    assert chosen == {id(old)}


def test_one_that_starts_slowly_gets_what_no_other_has_room_for() -> None:
    new = One(1, 4, 0.1)

    assert least_loaded_of_two([One(4, 4), new], Random(1)) is new


def test_equals_are_chosen_equally_often() -> None:
    those = [One(0, 4) for _ in range(4)]
    rng = Random(7)

    counts = Counter(id(least_loaded_of_two(those, rng)) for _ in range(4000))

    assert all(850 <= count <= 1150 for count in counts.values())


def test_the_contract_with_most_capacity_leads_and_the_last_where_it_is_even() -> None:
    old, new = "old", "new"
    of_each: Any = [(old, 4), (new, 4), (new, 1)]

    assert leading(of_each, old) == new
    assert leading(of_each[:2], new) == new
    assert leading(of_each[:2], old) == old
    assert leading([], old) is None


def attempts(seconds: float = 10.0) -> Attempts:
    return Attempts(Deadline.after(seconds, lambda: 100.0))


def fail(tried: Attempts, fault: Fault) -> bool:
    error = BackendUnavailableError("words")
    error.fault = fault
    return tried.may_go_on(One(0, 1), error)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_says_whether_another_may_try(fault: Fault) -> None:
    tried = attempts()
    elsewhere = CONSEQUENCES[fault].elsewhere

    often = [fail(tried, fault) for _ in range(MAX_ATTEMPTS)]

    expected = {
        Elsewhere.NO: [False] * MAX_ATTEMPTS,
        Elsewhere.ONCE: [True] + [False] * (MAX_ATTEMPTS - 1),
        Elsewhere.ALL: [True] * (MAX_ATTEMPTS - 1) + [False],
    }
    assert often == expected[elsewhere]


def test_one_that_is_lost_does_not_use_up_the_one_time() -> None:
    tried = attempts()

    assert [fail(tried, fault) for fault in ("lost", "failed", "failed")] == [True, True, False]


def test_nothing_is_tried_after_the_deadline() -> None:
    assert not fail(attempts(0.0), "lost")
