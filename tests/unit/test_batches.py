from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from speech_backend.batches import BATCH_SIZES, BATCH_TOKENS, batch_size, cheapest_batches
from speech_backend.windows import WINDOW_LENGTHS

if TYPE_CHECKING:
    from collections.abc import Sequence


def parts(*lengths: int) -> list[list[int]]:
    return sorted(sorted(lengths[n] for n in batch) for batch in cheapest_batches(lengths))


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ((160,), [[160]]),
        ((96, 96, 96, 96), [[96, 96, 96, 96]]),
        # Fifty or a hundred tokens of padding are cheaper than a batch more.
        ((48, 96), [[48, 96]]),
        ((96, 160), [[96, 160]]),
        # Hundreds are not.
        ((48, 512), [[48], [512]]),
        ((48, 48, 48, 48, 160), [[48, 48, 48, 48], [160]]),
        # Eight places for five windows cost three of them.
        ((160, 160, 160, 160, 160), [[160], [160, 160, 160, 160]]),
        ((), []),
    ],
)
def test_windows_share_a_batch_where_that_costs_less(
    lengths: tuple[int, ...], expected: list[list[int]]
) -> None:
    assert parts(*lengths) == sorted(expected)


def test_no_cut_costs_less() -> None:
    for lengths in itertools.combinations_with_replacement(WINDOW_LENGTHS, 5):
        found = sum(cost(sorted(lengths[n] for n in one)) for one in cheapest_batches(lengths))
        assert found == min(cut_cost(lengths, ends) for ends in range(16))


def cost(batch: Sequence[int]) -> int:
    return BATCH_TOKENS + batch_size(len(batch)) * batch[-1]


def cut_cost(lengths: tuple[int, ...], ends: int) -> int:
    """Return what these batches cost; each bit of `ends` cuts after a window."""
    cuts = [0, *(n + 1 for n in range(4) if ends >> n & 1), len(lengths)]
    return sum(cost(lengths[start:stop]) for start, stop in itertools.pairwise(cuts))


def test_every_window_is_in_one_batch_however_many_there_are() -> None:
    found = cheapest_batches(WINDOW_LENGTHS * 9)

    assert sorted(n for batch in found for n in batch) == list(range(54))
    assert max(map(len, found)) <= BATCH_SIZES[-1]


def test_a_batch_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="a batch of 17 is larger than 16"):
        batch_size(17)
