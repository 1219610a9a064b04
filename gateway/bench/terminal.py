"""What a run shows on the terminal: how far it is, and what came out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gateway.bench.report import written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.progress import TaskID

    from gateway.bench.calibration import Check
    from gateway.bench.compare import Comparison
    from gateway.bench.measure import Measured
    from gateway.bench.run import Step
    from gateway.bench.summary import Distribution, Level


class Bar:
    """A line for each level, on standard error; hands on what has ended."""

    def __init__(self, ended: Callable[[Measured], None]) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        failed = TextColumn("[red]{task.fields[failed]}")
        self._progress = Progress(
            *columns, TimeElapsedColumn(), failed, console=Console(stderr=True)
        )
        self._ended = ended
        self._task: TaskID | None = None
        self._failed = 0

    def __enter__(self) -> Bar:  # noqa: PYI034  Self needs Python 3.11
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, step: Step, total: int | None) -> None:
        """See Watcher.begin."""
        self._failed = 0
        if self._task is not None:
            self._progress.stop_task(self._task)
        self._task = self._progress.add_task(step.name, total=total, failed="")

    def ended(self, measured: Measured) -> None:
        """See Watcher.ended."""
        self._ended(measured)
        self._failed += measured.outcome not in ("ok", "hung up")
        if self._task is not None:
            failed = f"{self._failed} failed" if self._failed else ""
            self._progress.update(self._task, advance=1, failed=failed)


def show_levels(levels: Sequence[Level]) -> None:
    """Print a line for each level."""
    table = Table("level", "ok", "failed", "audio s/s", title_justify="left")
    for name in ("first audible p50", "p99", "complete p50", "p99", "RTF p50", "underruns"):
        table.add_column(name, justify="right")
    for level in levels:
        times = level.distributions
        table.add_row(
            level.name,
            str(level.ok),
            str(sum(level.failures.values())),
            f"{level.audio_seconds_per_second:.2f}",
            *_shown(times["first_audible_seconds"], "p50", "p99"),
            *_shown(times["total_seconds"], "p50", "p99"),
            "" if (rtf := times["rtf"]) is None else written(rtf.p50, "rtf"),
            str(level.underruns),
        )
    _print(table)


def show_checks(checks: Sequence[Check], load_average: float) -> int:
    """Print what was known and what was found; return 0 if all of it is right, else 1."""
    table = Table("", "what", "known", "found")
    for check in checks:
        mark = "[green]right[/]" if check.is_right else "[red]WRONG[/]"
        table.add_row(mark, check.what, check.known, check.found)
    _print(table)
    if all(check.is_right for check in checks):
        return 0
    print(
        f"not all is right; the load average is {load_average:.1f}: on a busy machine moments are "
        "late, and figures taken on it are as wrong as these",
        file=sys.stderr,
    )
    return 1


def show_comparison(comparison: Comparison) -> int:
    """Print what changed from one run to the other; return 1 if nothing can be compared, else 0."""
    for note in comparison.notes:
        print(note, file=sys.stderr)
    if not comparison.changes:
        return 1
    table = Table("level", "figure", "A", "B", "B less A", "95 % interval", "")
    for change in comparison.changes:
        table.add_row(
            change.level,
            f"{change.figure} p{change.percentile}",
            written(change.before, change.figure),
            written(change.after, change.figure),
            f"{change.difference / change.before:+.1%}" if change.before else "",
            f"{written(change.low, change.figure)} … {written(change.high, change.figure)}",
            change.verdict,
        )
    _print(table)
    return 0


def _shown(distribution: Distribution | None, *names: str) -> list[str]:
    if distribution is None:
        return ["" for _ in names]
    return [written(getattr(distribution, name)) for name in names]


def _print(table: Table) -> None:
    # A file or a pipe has no width; rich would cut the table to 80 columns.
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table)
