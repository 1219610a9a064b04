"""What the gateway shows of Triton's statistics, beside what Triton's own page has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tritonserver.conftest import start_gateway
from tritonserver.processes import free_ports, metric

if TYPE_CHECKING:
    from collections.abc import Callable

STAGES = {
    "success": "request",
    "queue": "queue",
    "compute_input": "compute_input",
    "compute_infer": "compute_infer",
    "compute_output": "compute_output",
}
MODELS = ("hibari", "vocoder")
SOON_SECONDS = 10.0
"""Ten polls, for a machine that is busy; here it takes one."""


def figures(port: int) -> dict[tuple[str, ...], float]:
    """Return a metrics page's values by name, and by stage or outcome."""
    values: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(
        httpx.get(f"http://127.0.0.1:{port}/metrics").text
    ):
        for sample in family.samples:
            kind = sample.labels.get("stage") or sample.labels.get("outcome")
            key = (sample.name, kind) if kind else (sample.name,)
            values[key] = values.get(key, 0) + sample.value
    return values


def counts(stack: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Return the counts that the gateway shows, and Triton's own."""
    ours, own = figures(stack.ports.http), figures(stack.ports.metrics)
    requests = "triton_inference_requests_total"
    shown = {
        "succeeded": ours.get((requests, "success"), -1),
        "failed": ours.get((requests, "fail"), -1),
        "inferences": ours.get(("triton_inferences_total",), -1),
        "executions": ours.get(("triton_executions_total",), -1),
    }
    counted = {
        "succeeded": own["nv_inference_request_success_total",],
        "failed": own["nv_inference_request_failure_total",],
        "inferences": own["nv_inference_count_total",],
        "executions": own["nv_inference_exec_count_total",],
    }
    return shown, counted


def agree(stack: Any) -> bool:
    shown, counted = counts(stack)
    return shown == counted


def check_seconds(stack: Any) -> None:
    """Assert that each stage has Triton's time, which Triton's page cuts to microseconds."""
    ours, own = figures(stack.ports.http), figures(stack.ports.metrics)
    for stage, name in STAGES.items():
        seconds = own[f"nv_inference_{name}_duration_us_total",] / 1e6
        shown = ours["triton_inference_stage_seconds_total", stage]
        count = ours["triton_inference_stage_count_total", stage]
        assert shown == pytest.approx(seconds, abs=2e-6 * count), stage


def test_our_figures_are_tritons_own_before_and_after_a_restart(
    own_stack: Any, until: Callable[[Callable[[], bool], float], float]
) -> None:
    for number in range(7):
        assert own_stack.ask(f"This is number {number}.").status_code == 200
    until(lambda: agree(own_stack), SOON_SECONDS)
    check_seconds(own_stack)
    before, _ = counts(own_stack)

    own_stack.engine.stop()
    until(lambda: figures(own_stack.ports.http)["triton_up",] == 0, SOON_SECONDS)
    down = figures(own_stack.ports.http)
    own_stack.restart_engine()
    until(lambda: own_stack.ask("Are you back?").status_code == 200, 30)
    until(lambda: agree(own_stack), SOON_SECONDS)
    check_seconds(own_stack)
    after, _ = counts(own_stack)

    assert before["succeeded"] >= 7
    assert before["failed"] == 0
    assert ("triton_inferences_total",) not in down
    assert 1 <= after["succeeded"] < before["succeeded"]


def test_a_model_that_triton_does_not_have_is_not_ready(
    own_stack: Any, until: Callable[[Callable[[], bool], float], float]
) -> None:
    """Our engine keeps its list of models to itself, so each is asked for by its name."""
    ports = replace(own_stack.ports, http=free_ports().http)
    gateway = start_gateway(ports, SPEECH_MODELS="hibari,vocoder")
    try:
        until(lambda: ("triton_up",) in figures(ports.http), SOON_SECONDS)
        ready = {name: metric(ports.http, "triton_model_ready", model=name) for name in MODELS}
    finally:
        gateway.stop()

    assert ready == {"hibari": 1, "vocoder": 0}


def test_the_machines_figures_are_shown_and_the_models_not_twice(
    own_stack: Any, until: Callable[[Callable[[], bool], float], float]
) -> None:
    until(lambda: ("nv_cpu_memory_used_bytes",) in figures(own_stack.ports.http), SOON_SECONDS)
    assert own_stack.ask("Count me.").status_code == 200
    finished = ("speech_model_requests_total", "finished")
    own = figures(own_stack.ports.metrics)[finished]

    until(lambda: figures(own_stack.ports.http)[finished] == own, SOON_SECONDS)

    names = {key[0] for key in figures(own_stack.ports.http)}
    assert not [name for name in names if name.startswith("nv_inference")]
