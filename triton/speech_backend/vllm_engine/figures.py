"""What the engine says of itself, as Triton's custom metrics."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from speech_backend.serving import CALL

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Figures:
    """The engine's load now, and what it has done since this process began.

    `running` and `waiting` are requests, `kv_used` is the share of the memory for keys and values
    that holds some, `steps` are tokens for all that run, `step_seconds` what they took together;
    a preempted request lost its place in that memory and is computed again.
    """

    running: int = 0
    waiting: int = 0
    kv_used: float = 0.0
    steps: int = 0
    step_seconds: float = 0.0
    preemptions: int = 0
    restarts: int = 0


class FigureRecorder:
    """Takes the figures of each step, as vLLM hands them to a stat logger.

    `ended` is told the name of each request that the step has ended.
    """

    def __init__(
        self,
        figures: Figures,
        ended: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._figures = figures
        self._ended = ended
        self._clock = clock
        self._stepped_at: float | None = None

    def record(self, scheduler: Any, iteration: Any) -> None:
        """Take vLLM's SchedulerStats and IterationStats of a step; either may be None."""
        now, figures = self._clock(), self._figures
        if iteration is not None:
            figures.preemptions += iteration.num_preempted_reqs
            for request in iteration.finished_requests:
                self._ended(request.request_id)
            if self._stepped_at is not None:
                figures.steps += 1
                figures.step_seconds += now - self._stepped_at
        if scheduler is not None:
            figures.running = scheduler.num_running_reqs
            figures.waiting = scheduler.num_waiting_reqs + scheduler.num_skipped_waiting_reqs
            figures.kv_used = scheduler.kv_cache_usage
        # The time until the next step is one only if there is something to compute.
        self._stepped_at = now if figures.running else None


METRICS = {
    "running": ("speech_llm_requests_running", "Requests that are computed in one batch"),
    "waiting": ("speech_llm_requests_waiting", "Requests that wait for a place in the batch"),
    "kv_used": ("speech_llm_kv_used_ratio", "Share of the memory for keys and values in use"),
    "steps": ("speech_llm_steps_total", "Steps; each writes an id for every running request"),
    "step_seconds": ("speech_llm_step_seconds_total", "Time from step to step while any ran"),
    "preemptions": ("speech_llm_preemptions_total", "Requests that lost their memory for a while"),
    "restarts": ("speech_llm_engine_restarts_total", "Engines started in the place of a dead one"),
}


class FigureMetrics:
    """Figures on Triton's metrics port."""

    def __init__(self, pb_utils: Any, model: str) -> None:
        # Kept, since the server drops the metrics of a family that is garbage collected.
        self._families = {}
        self._metrics = {}
        for field, (name, description) in METRICS.items():
            kinds = pb_utils.MetricFamily
            kind = kinds.COUNTER if name.endswith("_total") else kinds.GAUGE
            family = kinds(name=name, description=description, kind=kind)
            self._families[field] = family
            self._metrics[field] = family.Metric(labels={"model": model})
        self._last = Figures()

    def publish(self, figures: Figures) -> None:
        """Say what has changed since the last time."""
        for field in (field.name for field in fields(Figures)):
            now, before = getattr(figures, field), getattr(self._last, field)
            if now == before:
                continue
            metric = self._metrics[field]
            with CALL:
                if METRICS[field][0].endswith("_total"):
                    metric.increment(now - before)
                else:
                    metric.set(now)
            setattr(self._last, field, now)
