"""Statistics of a Triton as a table, and those of two times as the difference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.backend.statistics import Duration, ModelStatistics

if TYPE_CHECKING:
    from gateway.backend.statistics import ModelState, ReplicaStatistics

HEAD = (
    *("model", "version", "ready", "requests", "failed", "queue ms", "compute ms"),
    *("batch", "executions", "last"),
)
LEFT_COLUMNS = 3
CAVEAT = (
    "of a streaming (decoupled) Python model, compute ends when execute() returns, not with the "
    "last audio"
)
COMPUTE = ("compute_input", "compute_infer", "compute_output")


def table(replica: str, statistics: ReplicaStatistics, now_seconds: float) -> str:
    """Return the lines of one Triton; times are means of its requests, `now` is Unix time."""
    health = "ready" if statistics.is_ready else "NOT READY"
    version = f"version {statistics.version}" if statistics.version else "version unknown"
    models = {(model.name, model.version): model for model in statistics.models}
    rows = [
        _row(state, models.get((state.name, state.version)), now_seconds)
        for state in statistics.states
    ]
    reasons = [
        f"  not ready: {state.name}: {state.reason}"
        for state in statistics.states
        if not state.is_ready and state.reason
    ]
    head = f"Triton {replica}: {health}, {version}"
    return "\n".join([head, *_aligned([HEAD, *rows]), *reasons, f"  ({CAVEAT})"])


def _row(state: ModelState, model: ModelStatistics | None, now: float) -> tuple[str, ...]:
    known = (state.name, state.version or "-", "yes" if state.is_ready else "NO")
    if model is None:
        return (*known, *"-" * (len(HEAD) - len(known)))
    stages = model.stages
    compute = Duration(
        stages["compute_infer"].count, sum(stages[stage].seconds for stage in COMPUTE)
    )
    return (
        *known,
        str(stages["success"].count),
        str(stages["fail"].count),
        _mean_ms(stages["queue"]),
        _mean_ms(compute),
        f"{model.inferences / model.executions:.2f}" if model.executions else "-",
        str(model.executions),
        _age(model.last_inference_seconds, now),
    )


def _mean_ms(duration: Duration) -> str:
    return f"{duration.seconds / duration.count * 1e3:.2f}" if duration.count else "-"


def _age(then: float | None, now: float) -> str:
    if then is None:
        return "never"
    seconds = max(0.0, now - then)  # The machines' clocks may differ.
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if at < LEFT_COLUMNS else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def since(then: ReplicaStatistics, now: ReplicaStatistics) -> tuple[ReplicaStatistics, list[str]]:
    """Return what happened between the two, and in words what cannot be told from them.

    A model that counts less than before was loaded anew in between: its figures are those since.
    """
    before = {(model.name, model.version): model for model in then.models}
    models, notes = [], []
    for model in now.models:
        old = before.pop((model.name, model.version), None)
        if old is not None and _counts_less(model, old):
            notes.append(f"{model.name} was loaded anew; its figures are those since then")
            old = None
        models.append(model if old is None else _difference(old, model))
    notes += [f"{name} (version {version}) is no longer there" for name, version in before]
    return replace(now, models=tuple(models)), notes


def _counts_less(now: ModelStatistics, then: ModelStatistics) -> bool:
    # The counts of a busy model soon outrun those of before; the seconds may not.
    return now.inferences < then.inferences or any(
        now.stages[stage].count < duration.count or now.stages[stage].seconds < duration.seconds
        for stage, duration in then.stages.items()
    )


def _difference(then: ModelStatistics, now: ModelStatistics) -> ModelStatistics:
    sizes = {batch.batch_size: batch.stages for batch in then.batches}
    indices = {response.index: response.stages for response in then.responses}
    return replace(
        now,
        inferences=now.inferences - then.inferences,
        executions=now.executions - then.executions,
        stages=_minus(now.stages, then.stages),
        batches=tuple(
            replace(batch, stages=_minus(batch.stages, sizes.get(batch.batch_size, {})))
            for batch in now.batches
        ),
        responses=tuple(
            replace(response, stages=_minus(response.stages, indices.get(response.index, {})))
            for response in now.responses
        ),
    )


def _minus(now: dict[str, Duration], then: dict[str, Duration]) -> dict[str, Duration]:
    none = Duration(0, 0.0)
    return {
        stage: Duration(
            duration.count - then.get(stage, none).count,
            duration.seconds - then.get(stage, none).seconds,
        )
        for stage, duration in now.items()
    }
