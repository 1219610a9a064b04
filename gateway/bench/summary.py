"""From the requests of a level to its figures."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gateway.bench.measure import Measured

PERCENTILES = (50, 90, 95, 99)
TIMES = {
    "first_byte_seconds": "first byte",
    "first_audible_seconds": "first audible sample",
    "first_heard_seconds": "heard by a player",
    "total_seconds": "complete",
    "stalled_seconds": "stalled in one request",
    "rtf": "real-time factor",
    "send_lag_seconds": "sent late",
}
"""What has a distribution over requests, as a report calls it; gaps have one over pieces."""
GAPS = "gap_seconds"


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of so many values; percentiles lie between values where they must (linear)."""

    count: int
    min: float
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Distribution | None:
        """Return the distribution, None of no values."""
        array = np.fromiter(values, np.float64)
        if not len(array):
            return None
        p50, p90, p95, p99 = (float(value) for value in np.percentile(array, PERCENTILES))
        low, mean, high = (float(value) for value in (array.min(), array.mean(), array.max()))
        return cls(len(array), low, mean, p50, p90, p95, p99, high)


@dataclass(frozen=True, slots=True)
class Level:
    """One step of a run. Distributions are of plain listeners that got all of their speech.

    `wall_seconds` goes from the first request to the end of the last: at the end fewer run than
    `concurrency`, so give a level many more requests than that. `triton` and its notes
    are what `difference` found, empty where no Triton was named.
    """

    name: str
    concurrency: int | None
    rate: float | None
    requests: int
    ok: int
    hung_up: int
    failures: dict[str, int]
    examples: dict[str, str]
    """What one failure of each kind said."""
    wall_seconds: float
    requests_per_second: float
    audio_seconds: float
    audio_seconds_per_second: float
    mean_running: float
    most_running: int
    underruns: int
    requests_with_underrun: int
    stalled_seconds: float
    distributions: dict[str, Distribution | None]
    triton: dict[str, Any] = field(default_factory=dict)
    triton_notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def summarise(
    name: str,
    measured: Sequence[Measured],
    *,
    concurrency: int | None = None,
    rate: float | None = None,
) -> Level:
    """Return the figures of a level of at least one request."""
    counted = [one for one in measured if one.is_counted]
    failed = [one for one in measured if one.outcome not in ("ok", "hung up")]
    ok = sum(one.is_ok for one in measured)
    audio_seconds = sum(one.audio_seconds for one in measured)
    spans = [
        (one.scheduled_seconds + one.send_lag_seconds, one.scheduled_seconds + one.total_seconds)
        for one in measured
    ]
    wall = max(end for _, end in spans) - min(sent for sent, _ in spans)
    return Level(
        name=name,
        concurrency=concurrency,
        rate=rate,
        requests=len(measured),
        ok=ok,
        hung_up=sum(one.outcome == "hung up" for one in measured),
        failures=dict(Counter(one.outcome for one in failed)),
        examples={one.outcome: one.detail for one in reversed(failed)},
        wall_seconds=wall,
        requests_per_second=ok / wall,
        audio_seconds=audio_seconds,
        audio_seconds_per_second=audio_seconds / wall,
        mean_running=sum(end - sent for sent, end in spans) / wall,
        most_running=_most_at_once(spans),
        underruns=sum(one.underruns for one in counted),
        requests_with_underrun=sum(one.underruns > 0 for one in counted),
        stalled_seconds=sum(one.stalled_seconds for one in counted),
        distributions=_distributions(counted),
    )


def _distributions(counted: Sequence[Measured]) -> dict[str, Distribution | None]:
    found = {
        name: Distribution.of(v for one in counted if (v := getattr(one, name)) is not None)
        for name in TIMES
    }
    found[GAPS] = Distribution.of(gap for one in counted for gap in one.gaps_seconds)
    return found


def _most_at_once(spans: Iterable[tuple[float, float]]) -> int:
    # At the same moment, ends come before beginnings.
    changes = sorted(change for sent, end in spans for change in ((sent, 1), (end, -1)))
    running, most = 0, 0
    for _, change in changes:
        running += change
        most = max(most, running)
    return most
