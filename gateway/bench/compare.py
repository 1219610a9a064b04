"""`speech-gateway bench compare A B`: what changed between two runs, and whether by chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gateway.bench.requests import BenchError
from gateway.bench.results import read_requests, read_summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from gateway.bench.measure import Measured

FIGURES = ("first_audible_seconds", "total_seconds", "rtf")
PERCENTILES = (50, 90)
"""Higher ones rest on a handful of requests."""
DRAWS = 2000
FEWEST = 10
SAME_LOAD = ("format", "texts", "buffer_seconds", "audible_dbfs")


@dataclass(frozen=True, slots=True)
class Change:
    """A percentile of a level in both runs; `low` and `high` enclose 95 % of what chance gives."""

    level: str
    figure: str
    percentile: int
    before: float
    after: float
    low: float
    high: float

    @property
    def difference(self) -> float:
        """How much more it is in the second run."""
        return self.after - self.before

    @property
    def verdict(self) -> str:
        """Whether the difference is more than chance gives."""
        if self.low > 0:
            return "more"
        return "less" if self.high < 0 else "no clear difference"


def compare(before: Path, after: Path) -> list[Change]:
    """Return the changes of all levels that both runs have; raises BenchError."""
    summaries = [read_summary(folder) for folder in (before, after)]
    for name in SAME_LOAD:
        if summaries[0][name] != summaries[1][name]:
            raise BenchError(
                f"{before} and {after} cannot be compared: {name} is {summaries[0][name]!r} and "
                f"{summaries[1][name]!r}"
            )
    levels = [[level["name"] for level in summary["levels"]] for summary in summaries]
    shared = [name for name in levels[0] if name in levels[1]]
    if not shared:
        raise BenchError(
            f"{before} has the levels {levels[0]}, {after} {levels[1]}; none is shared"
        )
    requests = [read_requests(folder) for folder in (before, after)]
    return [change for level in shared for change in _changes(level, *requests)]


def _changes(level: str, before: Iterable[Measured], after: Iterable[Measured]) -> Iterator[Change]:
    dice = np.random.default_rng(0)
    for figure in FIGURES:
        runs = [_values(requests, level, figure) for requests in (before, after)]
        if min(map(len, runs)) < FEWEST:
            continue
        drawn = [_percentiles(dice.choice(run, (DRAWS, len(run)))) for run in runs]
        lows, highs = np.percentile(drawn[1] - drawn[0], [2.5, 97.5], axis=1)
        for index, percentile in enumerate(PERCENTILES):
            old, new = (float(np.percentile(run, percentile)) for run in runs)
            low, high = float(lows[index]), float(highs[index])
            yield Change(level, figure, percentile, old, new, low, high)


def _values(requests: Iterable[Measured], level: str, figure: str) -> npt.NDArray[np.float64]:
    return np.array(
        [
            value
            for one in requests
            if one.level == level and one.is_counted
            if (value := getattr(one, figure)) is not None
        ]
    )


def _percentiles(draws: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = np.percentile(draws, PERCENTILES, axis=1)
    return found
