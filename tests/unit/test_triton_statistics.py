"""What a scrape shows of Triton's statistics."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from fakes.clock import Clock
from gateway.backend.poller import Snapshot
from gateway.backend.statistics import (
    BatchStatistics,
    Duration,
    MemoryUsage,
    ModelState,
    ModelStatistics,
    ReplicaStatistics,
    ResponseStatistics,
)
from gateway.errors import BackendUnavailableError
from gateway.telemetry.triton_statistics import FAMILIES, TritonStatistics

STAGES = (
    *("success", "fail", "queue"),
    *("compute_input", "compute_infer", "compute_output"),
    *("cache_hit", "cache_miss"),
)
MODEL = ModelStatistics(
    name="hibari",
    version="1",
    last_inference_seconds=1_700_000.5,
    inferences=8,
    executions=4,
    stages={stage: Duration(4 + at, 0.25 * at) for at, stage in enumerate(STAGES)},
    batches=(BatchStatistics(2, {stage: Duration(4, 0.5) for stage in STAGES[3:6]}),),
    memory=(MemoryUsage("GPU", 0, 4096),),
    responses=(
        ResponseStatistics(
            "0",
            {
                stage: Duration(3, 1.5)
                for stage in (*STAGES[4:6], "success", "fail", "empty", "cancel")
            },
        ),
    ),
)
STATISTICS = ReplicaStatistics(
    is_ready=True,
    version="2.51.0",
    models=(MODEL,),
    states=(
        ModelState("hibari", "1", is_ready=True),
        ModelState("llm", "2", is_ready=False),
        ModelState("old", "1", is_ready=False, reason="unloaded", is_wanted=False),
    ),
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def board(clock: Clock) -> TritonStatistics:
    return TritonStatistics(clock)


def snapshot(
    statistics: ReplicaStatistics | None = STATISTICS, *, replica: str = "a:1", at: float = 100.0
) -> Snapshot:
    error = None if statistics else BackendUnavailableError("Triton cannot be reached")
    return Snapshot(replica, at, 0.25, statistics, error)


def samples(board: TritonStatistics, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by the values of its labels, which are sorted by name."""
    families = text_string_to_metric_families(board.exposition().decode())
    return {
        tuple(value for _, value in sorted(s.labels.items())): s.value
        for family in families
        for s in family.samples
        if s.name == name
    }


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("triton_up", ("a:1",), 1),
        ("triton_snapshot_duration_seconds", ("a:1",), 0.25),
        ("triton_model_ready", ("hibari", "a:1", "1"), 1),
        ("triton_model_ready", ("llm", "a:1", "2"), 0),
        ("triton_inference_requests_total", ("hibari", "success", "a:1", "1"), 4),
        ("triton_inference_requests_total", ("hibari", "fail", "a:1", "1"), 5),
        ("triton_inference_stage_seconds_total", ("hibari", "a:1", "queue", "1"), 0.5),
        ("triton_inference_stage_count_total", ("hibari", "a:1", "cache_miss", "1"), 11),
        ("triton_inferences_total", ("hibari", "a:1", "1"), 8),
        ("triton_executions_total", ("hibari", "a:1", "1"), 4),
        ("triton_batch_executions_total", ("2", "hibari", "a:1", "1"), 4),
        (
            "triton_batch_compute_seconds_total",
            ("2", "hibari", "a:1", "compute_infer", "1"),
            0.5,
        ),
        ("triton_model_memory_bytes", ("0", "hibari", "a:1", "GPU", "1"), 4096),
        ("triton_last_inference_timestamp_seconds", ("hibari", "a:1", "1"), 1_700_000.5),
        ("triton_responses_total", ("hibari", "empty", "a:1", "0", "1"), 3),
        ("triton_response_seconds_total", ("hibari", "a:1", "0", "cancel", "1"), 1.5),
    ],
)
def test_each_figure_is_shown_in_base_units(
    board: TritonStatistics, name: str, labels: tuple[str, ...], value: float
) -> None:
    board.update(snapshot())

    assert samples(board, name)[labels] == value


def test_a_model_that_nobody_wants_is_not_missed(board: TritonStatistics) -> None:
    board.update(snapshot())

    assert {labels[0] for labels in samples(board, "triton_model_ready")} == {"hibari", "llm"}


def test_every_family_is_described_before_there_is_any_figure(board: TritonStatistics) -> None:
    text = board.exposition().decode()

    for family in FAMILIES:
        assert f"# HELP {family.name} " in text
        assert f"# TYPE {family.name} {family.type}\n" in text
        assert (family.type == "counter") is family.name.endswith("_total")


def test_stages_of_a_decoupled_model_carry_their_caveat(board: TritonStatistics) -> None:
    families = {f.name: f for f in text_string_to_metric_families(board.exposition().decode())}

    for name in ("triton_inference_requests", "triton_inference_stage_seconds"):
        assert "decoupled" in families[name].documentation


def test_two_replicas_are_two_series_of_one_family(board: TritonStatistics) -> None:
    board.update(snapshot())
    board.update(snapshot(replica="b:1"))

    text = board.exposition().decode()

    assert samples(board, "triton_inferences_total").keys() == {
        ("hibari", "a:1", "1"),
        ("hibari", "b:1", "1"),
    }
    assert text.count("# TYPE triton_inferences_total counter") == 1


def test_a_replica_that_is_down_has_no_counters_and_ages(
    board: TritonStatistics, clock: Clock
) -> None:
    board.update(snapshot())
    clock.now = 130.0
    board.update(snapshot(None, at=130.0))

    assert samples(board, "triton_up") == {("a:1",): 0}
    assert samples(board, "triton_snapshot_age_seconds") == {("a:1",): 30}
    assert samples(board, "triton_inferences_total") == {}
    assert samples(board, "triton_model_ready") == {}


def test_a_replica_that_never_answered_ages_from_when_it_was_first_asked(
    board: TritonStatistics, clock: Clock
) -> None:
    board.update(snapshot(None))
    board.update(snapshot(None, at=105.0))
    clock.now = 110.0

    assert samples(board, "triton_snapshot_age_seconds") == {("a:1",): 10.25}


def test_a_replica_that_is_back_is_shown_as_it_now_counts(
    board: TritonStatistics, clock: Clock
) -> None:
    """A restarted Triton counts from 0; Prometheus takes that for the reset it is."""
    board.update(snapshot())
    board.update(snapshot(None, at=105.0))
    board.update(snapshot(replace(STATISTICS, models=(replace(MODEL, inferences=1),)), at=110.0))
    clock.now = 111.0

    assert samples(board, "triton_up") == {("a:1",): 1}
    assert samples(board, "triton_inferences_total") == {("hibari", "a:1", "1"): 1}
    assert samples(board, "triton_snapshot_age_seconds") == {("a:1",): 1}


def test_models_come_and_go(board: TritonStatistics) -> None:
    board.update(snapshot())
    board.update(snapshot(replace(STATISTICS, models=(replace(MODEL, name="vocoder"),))))

    assert samples(board, "triton_executions_total").keys() == {("vocoder", "a:1", "1")}


def test_a_replica_that_is_gone_is_not_shown(board: TritonStatistics) -> None:
    board.update(snapshot())
    board.update(snapshot(replica="b:1"))

    board.keep({"b:1"})

    assert samples(board, "triton_up") == {("b:1",): 1}
    assert "a:1" not in board.exposition().decode()


def test_a_model_that_was_never_asked_has_no_last_inference(board: TritonStatistics) -> None:
    never = replace(MODEL, last_inference_seconds=None)
    board.update(snapshot(replace(STATISTICS, models=(never,))))

    assert samples(board, "triton_last_inference_timestamp_seconds") == {}


@given(name=st.text())
def test_any_name_can_be_read_back(name: str) -> None:
    board = TritonStatistics()
    board.update(snapshot(replace(STATISTICS, models=(replace(MODEL, name=name),))))

    text = board.exposition().decode()
    assert text.endswith("\n")
    lines = [line for line in text.split("\n") if line.startswith("triton_executions_total{")]
    [family] = text_string_to_metric_families("\n".join(lines))
    assert [sample.labels["model"] for sample in family.samples] == [name]


@pytest.mark.parametrize("page", ["<html>\n", "nv_gpu_x{\n", "nv_gpu_x one\n", "# TYPE nv_gpu_x y"])
def test_a_page_that_is_none_is_an_error_and_the_statistics_are_shown(
    board: TritonStatistics, page: str
) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the parser's words
        board.update(replace(snapshot(), metrics_page=page))

    assert samples(board, "triton_up") == {("a:1",): 1}
    assert samples(board, "triton_inferences_total") == {("hibari", "a:1", "1"): 8}
