"""`speech-gateway bench compare A B`: what changed between two runs, and whether by chance."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gateway.bench.requests import BenchError
from gateway.bench.results import JSONL_FILE, read_requests, read_summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
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


class Comparison(NamedTuple):
    """The changes of the levels that can be compared; a line for each other level."""

    changes: list[Change]
    notes: list[str]


def compare(before: Path, after: Path) -> Comparison:
    """Return what changed in the levels that both runs have; raises BenchError."""
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
    requests = [_requests(*run) for run in zip((before, after), summaries, strict=True)]
    comparison = Comparison([], [])
    for level in shared:
        runs = [_plain(those, level) for those in requests]
        few = min((len(run), folder) for run, folder in zip(runs, (before, after), strict=True))
        if few[0] < FEWEST:
            comparison.notes.append(
                f"{level}: {few[0]} plain requests that were answered whole in {few[1]}, "
                f"{FEWEST} are needed"
            )
        else:
            comparison.changes.extend(_changes(*runs))
    for folder, names in zip((before, after), levels, strict=True):
        comparison.notes.extend(f"{n} is in {folder} alone" for n in names if n not in shared)
    return comparison


def _requests(folder: Path, summary: dict[str, Any]) -> list[Measured]:
    """Return the requests of a run; raises BenchError where some have been lost."""
    requests = read_requests(folder)
    found = Counter(one.level for one in requests)
    for level in summary["levels"]:
        name, count = level["name"], level["requests"]
        if found[name] != count:
            raise BenchError(
                f"{folder / JSONL_FILE} holds {found[name]} of the {count} requests of {name}: "
                "the file was cut off or changed"
            )
    return requests


def _plain(requests: Iterable[Measured], level: str) -> list[Measured]:
    return [
        one
        for one in requests
        if one.level == level
        and one.is_counted
        and all(getattr(one, figure) is not None for figure in FIGURES)
    ]


def _changes(before: Sequence[Measured], after: Sequence[Measured]) -> Iterator[Change]:
    dice = np.random.default_rng(0)
    for figure in FIGURES:
        runs = [np.array([getattr(one, figure) for one in run]) for run in (before, after)]
        drawn = [_percentiles(dice.choice(run, (DRAWS, len(run)))) for run in runs]
        lows, highs = np.percentile(drawn[1] - drawn[0], [2.5, 97.5], axis=1)
        for index, percentile in enumerate(PERCENTILES):
            old, new = (float(np.percentile(run, percentile)) for run in runs)
            low, high = float(lows[index]), float(highs[index])
            yield Change(before[0].level, figure, percentile, old, new, low, high)


def _percentiles(draws: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = np.percentile(draws, PERCENTILES, axis=1)
    return found
