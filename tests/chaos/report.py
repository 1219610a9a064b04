"""A row of the table for each fault."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from chaos.clients import under_way
from chaos.faults import name_of

if TYPE_CHECKING:
    from chaos.clients import Ending
    from chaos.faults import Fault

HEAD = (
    "| fault | requests | whole | cut off | refused | not whole | first audio p50 | p99 | longest "
    "| all well after |\n|---|---|---|---|---|---|---|---|---|---|"
)


class Trial:
    """A fault from its beginning until all is well, and the requests under way meanwhile."""

    def __init__(self, faults: tuple[Fault, ...], name: str = "") -> None:
        self.well_after_seconds = 0.0
        self.is_well = True
        self._faults = faults
        self._name = name or name_of(faults)
        self._began_at = time.monotonic()
        self._endings: list[Ending] = []

    def close(self, endings: list[Ending]) -> None:
        """Take those requests that ended meanwhile."""
        self._endings = list(under_way(endings, self._began_at, time.monotonic()))

    @property
    def count(self) -> int:
        """How many faults there are at once."""
        return len(self._faults)

    @classmethod
    def together(cls, name: str, trials: list[Trial]) -> Trial:
        """Return the sum of these, with the longest time until all was well."""
        total = cls((), name)
        total.well_after_seconds = max(trial.well_after_seconds for trial in trials)
        total._endings = [ending for trial in trials for ending in trial._endings]
        return total

    def row(self) -> str:
        """Return the line of the table."""
        outcomes = Counter(ending.outcome for ending in self._endings)
        whole, broken = outcomes.pop("whole", 0), outcomes.pop("broken", 0)
        refused = ", ".join(f"{n} × {words}" for words, n in sorted(outcomes.items())) or "0"
        lost = 1 - whole / max(1, len(self._endings))
        first = [e.first_audio_seconds for e in self._endings if e.first_audio_seconds] or [np.nan]
        p50, p99 = np.percentile(first, [50, 99])
        longest = max((e.ended_at_seconds - e.began_at_seconds for e in self._endings), default=0)
        cells = [self._name, len(self._endings), whole, broken, refused, f"{lost:.1%}"]
        cells += [f"{p50:.2f} s", f"{p99:.2f} s", f"{longest:.1f} s"]
        cells.append(f"{self.well_after_seconds:.1f} s" if self.well_after_seconds else "")
        return "| " + " | ".join(map(str, cells)) + " |"

    def wrong(self) -> list[str]:
        """Return what must not be of the fault as a whole."""
        found = [] if self.is_well else [f"{self._name}: not all well again"]
        lost = sum(ending.outcome != "whole" for ending in self._endings)
        if all(fault.loses_nothing for fault in self._faults):
            found += [f"{self._name}: {lost} requests lost"] if lost else []
            found += [] if self._endings else [f"{self._name}: nobody asked"]
        return found
