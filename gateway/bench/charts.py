"""The report's pictures, as SVG that stands in a page by itself."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from gateway.bench.stages import STAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from gateway.bench.measure import Measured
    from gateway.bench.summary import Level

# Okabe and Ito's colours, which most people can tell apart.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#000000")
FAILED = "#d55e00"
LADDER = {"first_audible_seconds": "first audible", "total_seconds": "complete"}
PERCENTILES = {"p50": "-", "p90": "--", "p99": ":"}
SIZE_INCHES = (6.0, 3.4)
"""Half of a wide screen, and small enough that a phone's still has letters to read."""
STYLE = {
    "svg.fonttype": "none",  # text stays text
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
}


def ladder(levels: Sequence[Level]) -> str:
    """First audible sample and complete answer by level: median, p90, p99."""

    def draw(axes: Axes) -> None:
        for colour, (name, label) in zip(COLOURS, LADDER.items(), strict=False):
            for percentile, dashes in PERCENTILES.items():
                spots = [
                    (index, getattr(d, percentile))
                    for index, level in enumerate(levels)
                    if (d := level.distributions[name]) is not None
                ]
                places, seconds = zip(*spots, strict=True) if spots else ((), ())
                style: Any = {"marker": "o", "markersize": 3, "color": colour}
                axes.plot(places, seconds, dashes, label=f"{label}, {percentile}", **style)
        _name_levels(axes, levels)
        axes.set_ylabel("seconds")
        if any(level.distributions[name] for level in levels for name in LADDER):
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter(NullFormatter())
        _add_legend(axes, columns=len(LADDER))

    return _svg("ladder", draw)


def throughput(levels: Sequence[Level]) -> str:
    """Seconds of audio made in a second, by level; failures as bars."""

    def draw(axes: Axes) -> None:
        places = range(len(levels))
        made = [level.audio_seconds_per_second for level in levels]
        axes.plot(places, made, "-o", color=COLOURS[2], label="audio, seconds a second")
        failed = [100 * sum(level.failures.values()) / level.requests for level in levels]
        if any(failed):
            other = axes.twinx()
            other.bar(places, failed, width=0.3, color=FAILED, alpha=0.4)
            other.set_ylabel("failed, % (bars)")
            other.set_ylim(0, 100)
            other.grid(visible=False)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("seconds of audio a second")
        _name_levels(axes, levels)

    return _svg("throughput", draw)


def distribution(measured: Sequence[Measured], levels: Sequence[Level], figure: str) -> str:
    """Which part of the requests had it by when: a curve for each level."""

    def draw(axes: Axes) -> None:
        for index, level in enumerate(levels):
            values = sorted(
                value
                for one in measured
                if one.level == level.name and one.is_counted
                if (value := getattr(one, figure)) is not None
            )
            parts = np.arange(1, len(values) + 1) / max(1, len(values)) * 100
            axes.step(values, parts, where="post", color=_colour(index), label=level.name)
        axes.set_xlabel("seconds")
        axes.set_ylabel("% of requests")
        axes.set_ylim(0, 101)
        axes.set_xlim(left=0)
        _add_legend(axes)

    return _svg(f"distribution-{figure}", draw)


def timeline(measured: Sequence[Measured], levels: Sequence[Level]) -> str:
    """Each request at the moment it was due: first audible sample, failures as crosses."""

    def draw(axes: Axes) -> None:
        start = 0.0
        for index, level in enumerate(levels):
            ones = [one for one in measured if one.level == level.name]
            good = [one for one in ones if one.is_counted]
            axes.scatter(
                [start + one.scheduled_seconds for one in good],
                [one.first_audible_seconds or 0.0 for one in good],
                s=8,
                color=_colour(index),
                label=level.name,
            )
            failed = [one for one in ones if one.outcome not in ("ok", "hung up")]
            axes.scatter(
                [start + one.scheduled_seconds for one in failed],
                [one.total_seconds for one in failed],
                s=24,
                marker="x",
                color=FAILED,
            )
            start += max(one.scheduled_seconds + one.total_seconds for one in ones)
        axes.set_xlabel("seconds, the levels one after another")
        axes.set_ylabel("first audible sample, seconds")
        axes.set_ylim(bottom=0)
        _add_legend(axes)

    return _svg("timeline", draw)


def stages(levels: Sequence[Level]) -> str:
    """Mean milliseconds of each of Triton's stages, stacked, for each model and level."""

    def draw(axes: Axes) -> None:
        bars = [
            (f"{level.name}\n{model}", figures["mean_seconds"])
            for level in levels
            for model, figures in level.triton.items()
        ]
        low = np.zeros(len(bars))
        for index, stage in enumerate(STAGES):
            heights = np.array([means[stage] * 1e3 for _, means in bars])
            axes.bar(range(len(bars)), heights, bottom=low, color=_colour(index), label=stage)
            low += heights
        axes.set_xticks(range(len(bars)), [name for name, _ in bars], fontsize=8)
        axes.set_ylabel("mean milliseconds")
        _add_legend(axes)

    return _svg("stages", draw)


def _name_levels(axes: Axes, levels: Sequence[Level]) -> None:
    is_open = levels[0].rate is not None
    names = [f"{level.rate:g}" if is_open else str(level.concurrency) for level in levels]
    axes.set_xticks(range(len(levels)), names)
    axes.set_xlabel("arrivals a second" if is_open else "requests at once")


def _add_legend(axes: Axes, columns: int = 4) -> None:
    # Inside it would lie on the lines.
    figure = axes.get_figure(root=True)
    if figure is not None:
        figure.legend(loc="outside upper left", fontsize=9, ncols=columns)


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _svg(name: str, draw: Callable[[Axes], None]) -> str:
    style: Any = {**STYLE, "svg.hashsalt": name}
    with mpl.rc_context(style):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        draw(figure.subplots())
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    return text[text.index("<svg") :]
