from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fakes.pb_utils import KeepingPbUtils
from fakes.spark import FakeClock
from speech_backend.vllm_engine.figures import FigureMetrics, FigureRecorder, Figures


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def figures() -> Figures:
    return Figures()


@pytest.fixture
def recorder(figures: Figures, clock: FakeClock) -> FigureRecorder:
    return FigureRecorder(figures, [].append, clock)


def scheduler(running: int, waiting: int = 0, skipped: int = 0, kv: float = 0.0) -> Any:
    return SimpleNamespace(
        num_running_reqs=running,
        num_waiting_reqs=waiting,
        num_skipped_waiting_reqs=skipped,
        kv_cache_usage=kv,
    )


def iteration(preempted: int = 0) -> Any:
    return SimpleNamespace(num_preempted_reqs=preempted, finished_requests=[])


def test_the_load_is_that_of_the_last_step(recorder: FigureRecorder, figures: Figures) -> None:
    recorder.record(scheduler(7, 2, 1, 0.25), iteration())
    recorder.record(None, None)

    assert (figures.running, figures.waiting, figures.kv_used) == (7, 3, 0.25)


def test_a_step_is_the_time_since_the_last_one(
    recorder: FigureRecorder, figures: Figures, clock: FakeClock
) -> None:
    for seconds in (0.0, 0.002, 0.004):
        clock.now += seconds
        recorder.record(scheduler(1), iteration())

    assert figures.steps == 2
    assert figures.step_seconds == pytest.approx(0.006)


def test_the_time_when_nothing_runs_is_no_step(
    recorder: FigureRecorder, figures: Figures, clock: FakeClock
) -> None:
    recorder.record(scheduler(1), iteration())
    recorder.record(scheduler(0), iteration())
    clock.now += 60
    recorder.record(scheduler(1), iteration())

    assert (figures.steps, figures.step_seconds) == (1, 0.0)


def test_preemptions_add_up(recorder: FigureRecorder, figures: Figures) -> None:
    recorder.record(scheduler(1), iteration(2))
    recorder.record(scheduler(1), iteration(3))

    assert figures.preemptions == 5


def test_figures_are_on_tritons_metrics_port() -> None:
    pb_utils = KeepingPbUtils()
    metrics = FigureMetrics(pb_utils, "llm")

    metrics.publish(Figures(running=3, kv_used=0.5, steps=10, step_seconds=0.25, restarts=1))
    metrics.publish(Figures(running=1, kv_used=0.5, steps=12, step_seconds=0.5, restarts=1))

    values = {name: family.metrics[0].value for name, family in pb_utils.families.items()}
    assert values == {
        "speech_llm_requests_running": 1,
        "speech_llm_requests_waiting": 0,
        "speech_llm_kv_used_ratio": 0.5,
        "speech_llm_steps_total": 12,
        "speech_llm_step_seconds_total": 0.5,
        "speech_llm_preemptions_total": 0,
        "speech_llm_engine_restarts_total": 1,
    }
    kinds = {name: family.kind for name, family in pb_utils.families.items()}
    assert {name for name, kind in kinds.items() if kind == "counter"} == {
        name for name in kinds if name.endswith("_total")
    }


def test_who_has_ended_is_told(figures: Figures, clock: FakeClock) -> None:
    ended: list[str] = []
    recorder = FigureRecorder(figures, ended.append, clock)
    step = SimpleNamespace(
        num_preempted_reqs=0, finished_requests=[SimpleNamespace(request_id=n) for n in "37"]
    )

    recorder.record(scheduler(1), step)
    recorder.record(scheduler(1), None)

    assert ended == ["3", "7"]
