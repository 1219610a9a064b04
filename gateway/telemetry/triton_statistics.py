"""Triton's statistics as metrics: each replica's last snapshot, written out when it comes.

A scrape joins text that is there. Counters are Triton's own cumulative values: after a restart
they begin at 0, which Prometheus' rate() and increase() know; nothing is added up here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.telemetry.exposition import Family, Lines, join, native_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from gateway.backend.poller import Snapshot
    from gateway.backend.statistics import ModelStatistics, ReplicaStatistics

CAVEAT = (
    "Triton's own view: for a decoupled (streaming) Python model a request's time ends when "
    "execute() returns and not with its last audio, and broken or cancelled streams are successes"
)
UP = Family("triton_up", "gauge", "1 where the replica gave its statistics when last asked, else 0")
AGE = Family(
    "triton_snapshot_age_seconds",
    "gauge",
    "Since the replica last gave its statistics; since it was first asked where it never did",
)
DURATION = Family(
    "triton_snapshot_duration_seconds",
    "gauge",
    "How long the statistics took the last time, without the metrics page",
)
READY = Family(
    "triton_model_ready",
    "gauge",
    "1 where a model that is served here, or was to be loaded, can be used, else 0; one whose "
    "process died may still be 1",
)
REQUESTS = Family(
    "triton_inference_requests_total",
    "counter",
    f"Requests by outcome; those that a full queue refused are nowhere. {CAVEAT}",
)
STAGE_SECONDS = Family(
    "triton_inference_stage_seconds_total",
    "counter",
    f"Time that requests spent in a stage; success and fail are whole requests. {CAVEAT}",
)
STAGE_COUNT = Family(
    "triton_inference_stage_count_total",
    "counter",
    f"Requests that went through a stage, to divide its seconds by. {CAVEAT}",
)
INFERENCES = Family(
    "triton_inferences_total", "counter", "Inferences: elements of batches, warm-up included"
)
EXECUTIONS = Family(
    "triton_executions_total", "counter", "Executions of the model, a batch is one; with warm-up"
)
BATCHES = Family("triton_batch_executions_total", "counter", "Executions by size of their batch")
BATCH_SECONDS = Family(
    "triton_batch_compute_seconds_total",
    "counter",
    f"Time of executions by size of their batch and stage. {CAVEAT}",
)
MEMORY = Family(
    "triton_model_memory_bytes", "gauge", "Memory of the model, where its backend reports it"
)
LAST = Family(
    "triton_last_inference_timestamp_seconds",
    "gauge",
    "Unix time of the model's last request; none where there was none since it was loaded",
)
RESPONSES = Family(
    "triton_responses_total",
    "counter",
    "Responses by their number within a request (0 is the first), where the backend reports them",
)
RESPONSE_SECONDS = Family(
    "triton_response_seconds_total",
    "counter",
    "Time of responses by their number within a request, where the backend reports them",
)
FAMILIES = (
    *(UP, AGE, DURATION, READY, REQUESTS, STAGE_SECONDS, STAGE_COUNT, INFERENCES, EXECUTIONS),
    *(BATCHES, BATCH_SECONDS, MEMORY, LAST, RESPONSES, RESPONSE_SECONDS),
)
NATIVE_PREFIXES = ("nv_gpu_", "nv_cpu_", "nv_pinned_", "nv_trt_llm_", "speech_model_")
"""What is taken from a metrics page; its nv_inference_* would be the statistics once more."""


@dataclass
class _Shown:
    """What is shown of one replica; its counters only while it answers."""

    answered_at_seconds: float
    lines: Lines = field(default_factory=Lines)


class TritonStatistics:
    """The board that the poller writes to and a scrape reads, both in the event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shown: dict[str, _Shown] = {}

    def update(self, snapshot: Snapshot) -> None:
        """Show this snapshot in place of the replica's last.

        Raises ValueError for a metrics page that is none; the statistics are shown all the same.
        """
        name, statistics = snapshot.replica, snapshot.statistics
        first_asked_at = snapshot.taken_at_seconds - snapshot.duration_seconds
        shown = self._shown.setdefault(name, _Shown(first_asked_at))
        shown.lines = lines = Lines()
        lines.add(UP, statistics is not None, replica=name)
        lines.add(DURATION, snapshot.duration_seconds, replica=name)
        if statistics is None:
            return
        shown.answered_at_seconds = snapshot.taken_at_seconds
        _add_statistics(lines, statistics, name)
        lines.extend(native_lines(snapshot.metrics_page, NATIVE_PREFIXES, replica=name))

    def keep(self, names: Collection[str]) -> None:
        """Show the replicas of these names, and no others."""
        self._shown = {name: shown for name, shown in self._shown.items() if name in names}

    def exposition(self) -> bytes:
        """Return the text of all replicas, family by family."""
        ages, now = Lines(), self._clock()
        for name, shown in self._shown.items():
            ages.add(AGE, now - shown.answered_at_seconds, replica=name)
        return join(FAMILIES, (ages, *(shown.lines for shown in self._shown.values())))


def _add_statistics(lines: Lines, statistics: ReplicaStatistics, replica: str) -> None:
    for state in (state for state in statistics.states if state.is_wanted):
        labels = {"replica": replica, "model": state.name, "version": state.version}
        lines.add(READY, state.is_ready, **labels)
    for model in statistics.models:
        _add_model(lines, model, replica)


def _add_model(lines: Lines, model: ModelStatistics, replica: str) -> None:
    labels = {"replica": replica, "model": model.name, "version": model.version}
    lines.add(INFERENCES, model.inferences, **labels)
    lines.add(EXECUTIONS, model.executions, **labels)
    for outcome in ("success", "fail"):
        lines.add(REQUESTS, model.stages[outcome].count, **labels, outcome=outcome)
    for stage, duration in model.stages.items():
        lines.add(STAGE_SECONDS, duration.seconds, **labels, stage=stage)
        lines.add(STAGE_COUNT, duration.count, **labels, stage=stage)
    for batch in model.batches:
        size = {"batch_size": str(batch.batch_size)}
        lines.add(BATCHES, batch.stages["compute_infer"].count, **labels, **size)
        for stage, duration in batch.stages.items():
            lines.add(BATCH_SECONDS, duration.seconds, **labels, **size, stage=stage)
    for usage in model.memory:
        lines.add(MEMORY, usage.size_bytes, **labels, type=usage.type, id=str(usage.id))
    if model.last_inference_seconds is not None:
        lines.add(LAST, model.last_inference_seconds, **labels)
    for response in model.responses:
        index = {"response_index": response.index}
        for stage, duration in response.stages.items():
            if not stage.startswith("compute_"):
                lines.add(RESPONSES, duration.count, **labels, **index, outcome=stage)
            lines.add(RESPONSE_SECONDS, duration.seconds, **labels, **index, stage=stage)
