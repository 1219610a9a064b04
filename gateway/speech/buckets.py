"""How often a value fell into each of some buckets, for what is too frequent to be kept."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class BucketCounts:
    """Counts by upper bound (inclusive), and one more for what is above them all."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        """The sum of all values."""

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add_all(self, other: BucketCounts) -> None:
        """Count what another has counted; raises ValueError if its bounds are not these."""
        if other.bounds != self.bounds:
            raise ValueError(f"these bounds differ: {other.bounds} and {self.bounds}")
        self.counts = [mine + more for mine, more in zip(self.counts, other.counts, strict=True)]
        self.total += other.total
