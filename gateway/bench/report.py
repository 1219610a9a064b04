"""One page that shows a run: it stands alone, without a script or a file beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from gateway.bench import charts
from gateway.bench.summary import GAPS, TIMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.bench.measure import Measured
    from gateway.bench.summary import Level

SHOWN = {**TIMES, GAPS: "gap between pieces"}
IN_MILLISECONDS = 0.0995
"""Below this many seconds a time is written in milliseconds."""


def render(about: dict[str, Any], levels: Sequence[Level], measured: Sequence[Measured]) -> str:
    """Return the page of a run of at least one level."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["time"] = written
    return environment.get_template("report.html.jinja").render(
        about=about,
        levels=levels,
        shown=SHOWN,
        charts=_charts(levels, measured),
    )


def written(value: float, figure: str = "") -> str:
    """Write a time as a reader wants it, in ms or s; a real-time factor without a unit."""
    if figure == "rtf":
        return f"{value:.3f}"
    if abs(value) < IN_MILLISECONDS:
        return f"{value * 1e3:.1f} ms"
    return f"{value:.3f} s"


def _charts(levels: Sequence[Level], measured: Sequence[Measured]) -> list[tuple[str, str, Any]]:
    """Return (title, what to see in it, SVG) of each."""
    drawn = [
        ("Time by level", "Median, p90 and p99 of plain listeners.", charts.ladder(levels)),
        ("Throughput", "All audio that came, by wall time.", charts.throughput(levels)),
        (
            "First audible sample",
            "Part of the requests that were heard by then.",
            charts.distribution(measured, levels, "first_audible_seconds"),
        ),
        (
            "Complete answer",
            "Part of the requests that had all of their audio by then.",
            charts.distribution(measured, levels, "total_seconds"),
        ),
        (
            "Timeline",
            "Dots: first audible sample. Crosses: failures, at the time they took.",
            charts.timeline(measured, levels),
        ),
    ]
    if any(level.triton for level in levels):
        text = "What Triton itself says, as a difference over each level."
        drawn.append(("Stages in Triton", text, charts.stages(levels)))
    return [(title, text, Markup(svg)) for title, text, svg in drawn]  # noqa: S704  ours
