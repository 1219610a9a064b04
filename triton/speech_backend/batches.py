"""What is decoded together. No torch, so that it is tested without."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH_SIZES = (1, 2, 4, 8, 16)

BATCH_TOKENS = 200
"""A batch costs as much as these, besides its tokens: 1.7 ms on an H200, 9 ms for 1 000 tokens,
measured of the whole decoder."""


def next_larger(least: int, allowed: Sequence[int]) -> int | None:
    """Return the first of `allowed`, which rise, that is not less; None where all are."""
    return next((each for each in allowed if each >= least), None)


def batch_size(items: int) -> int:
    """Return the size of the batch that computes `items`."""
    size = next_larger(items, BATCH_SIZES)
    if size is None:
        raise ValueError(f"a batch of {items} is larger than {BATCH_SIZES[-1]}")
    return size


def cheapest_batches(lengths: Sequence[int]) -> list[list[int]]:
    """Return the batches, as numbers of items of these lengths, that cost the least together.

    All items of a batch are padded to its longest, and a batch to the next of BATCH_SIZES. On a
    GPU lengths are padded further, to the next that has a graph, which is left out of the account.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    costs, starts = [0], [0]
    for stop in range(1, len(order) + 1):
        longest = lengths[order[stop - 1]]
        cost, start = min(
            (costs[start] + BATCH_TOKENS + batch_size(stop - start) * longest, start)
            for start in range(max(0, stop - BATCH_SIZES[-1]), stop)
        )
        costs.append(cost)
        starts.append(start)
    batches, stop = [], len(order)
    while stop:
        batches.append(order[starts[stop] : stop])
        stop = starts[stop]
    return batches
