"""Which of several Tritons gets a call: pure functions over what is known of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

    from gateway.backend.contracts import ModelContract


class Loaded(Protocol):
    """What has work, and a bound for it."""

    @property
    def in_flight(self) -> int:
        """Calls that it has."""

    @property
    def capacity(self) -> int:
        """Calls that it may have."""

    @property
    def share(self) -> float:
        """What it should have of its part of the load, up to 1: less while it starts slowly."""


LoadedT = TypeVar("LoadedT", bound=Loaded)


def least_loaded_of_two(those: Sequence[LoadedT], rng: Random) -> LoadedT | None:
    """Return one with room: the less loaded of two drawn at random; None where all are full.

    The least loaded of all would draw every gateway to the same one.
    """
    with_room = [one for one in those if one.in_flight < one.capacity]
    if len(with_room) < 2:  # noqa: PLR2004  two powers of choice
        return with_room[0] if with_room else None
    first, second = rng.sample(with_room, 2)
    return second if load(second) < load(first) else first


def load(one: Loaded) -> float:
    """Return how loaded it would be with one call more: 1 is all that it takes, and a full share.

    With one more, since without any call all would be alike, however slowly they should start.
    """
    return (one.in_flight + 1) / (one.capacity * one.share)


def leading(
    contracts: Iterable[tuple[ModelContract, int]], last: ModelContract | None
) -> ModelContract | None:
    """Return the contract behind which the most capacity stands; `last` where it is even.

    While a new checkpoint is rolled out, Tritons differ, and a voice made by one is another
    person on the other; so new requests go to those of one contract.
    """
    capacities: Counter[ModelContract] = Counter()
    for contract, capacity in contracts:
        capacities[contract] += capacity
    if not capacities:
        return None
    most = max(capacities.values())
    if last is not None and capacities[last] == most:
        return last
    return next(contract for contract, capacity in capacities.items() if capacity == most)
