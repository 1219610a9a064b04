"""What Prometheus sees of Triton, through the running service."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fakes.script import WAIT_SECONDS
from fakes.service import RunningService
from fakes.statistics import FakeMetricsPage, model_statistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakes.triton import FakeTriton

OFTEN = {"statistics_interval_seconds": 0.2}


def scrape(service: RunningService) -> str:
    return service.client.get("/metrics").text


def figures(text: str) -> dict[str, float]:
    """Return the figures by name, the last of each."""
    families = text_string_to_metric_families(text)
    return {sample.name: sample.value for family in families for sample in family.samples}


def wait_for(service: RunningService, **wanted: float | None) -> str:
    """Scrape until these figures are there, None: not there; return the whole scrape."""
    give_up_at = time.monotonic() + WAIT_SECONDS
    while True:
        text = scrape(service)
        seen = {name: figures(text).get(name) for name in wanted}
        if seen == wanted:
            return text
        assert time.monotonic() < give_up_at, seen


def test_tritons_figures_are_beside_our_own(triton: FakeTriton) -> None:
    triton.statistics.models = [model_statistics("hibari", requests=3)]

    with RunningService(triton, **OFTEN) as service:
        text = wait_for(service, triton_inferences_total=3)

    assert f'triton_up{{replica="{triton.address}"}} 1.0\n' in text
    assert f'triton_executions_total{{replica="{triton.address}",model="hibari"' in text
    assert "speech_requests_in_flight" in text


def test_a_triton_that_dies_and_comes_back_is_followed(triton: FakeTriton) -> None:
    triton.statistics.models = [model_statistics("hibari", requests=3)]
    with RunningService(triton, **OFTEN) as service:
        wait_for(service, triton_inferences_total=3)

        triton.stop()
        down = figures(wait_for(service, triton_up=0))
        older = figures(scrape(service))
        triton.statistics.models = [model_statistics("hibari", requests=1)]
        triton.start()
        wait_for(service, triton_up=1, triton_inferences_total=1)

    assert "triton_inferences_total" not in down
    assert "triton_model_ready" not in down
    assert older["triton_snapshot_age_seconds"] > down["triton_snapshot_age_seconds"] > 0


@pytest.mark.parametrize("refused", [frozenset(), frozenset({"RepositoryIndex"})])
def test_a_model_that_is_served_but_not_loaded_is_not_ready(
    triton: FakeTriton, refused: frozenset[str]
) -> None:
    triton.statistics.refused = refused

    with RunningService(triton, models="hibari,vocoder", **OFTEN) as service:
        wait_for(service, triton_up=1)

        assert service.metric("triton_model_ready", model="hibari") == 1
        assert service.metric("triton_model_ready", model="vocoder") == 0


def test_the_tokenizer_must_be_ready_where_a_voice_is_a_recording(
    spark: FakeTriton, serve: Callable[..., RunningService]
) -> None:
    spark.tokenizer = None

    with serve(**OFTEN) as service:
        wait_for(service, triton_up=1)

        assert service.metric("triton_model_ready", model="spark_tts") == 1
        assert service.metric("triton_model_ready", model="audio_tokenizer") == 0


def test_a_triton_that_hangs_is_down_and_the_service_speaks(triton: FakeTriton) -> None:
    triton.statistics.is_hanging = True

    with RunningService(triton, **OFTEN) as service:
        wait_for(service, triton_up=0)

        assert service.say().status_code == 200


def test_the_machines_figures_come_from_tritons_own_page(triton: FakeTriton) -> None:
    with FakeMetricsPage() as page:
        settings = {"triton_metrics_address": page.address, **OFTEN}
        with RunningService(triton, **settings) as service:
            wait_for(service, nv_gpu_utilization=0.5)
            page.status = 500
            wait_for(service, nv_gpu_utilization=None, triton_up=1)


def test_nothing_is_asked_where_the_interval_is_0(triton: FakeTriton) -> None:
    with RunningService(triton, statistics_interval_seconds=0.0) as service:
        assert service.say().status_code == 200
        assert "triton_up" not in figures(scrape(service))


@pytest.mark.parametrize(("seconds", "is_told"), [(0.0, True), (5.0, False)])
def test_a_page_that_is_never_asked_for_is_a_warning(
    triton: FakeTriton, caplog: pytest.LogCaptureFixture, seconds: float, *, is_told: bool
) -> None:
    with FakeMetricsPage() as page:
        settings = {"triton_metrics_address": page.address, "statistics_interval_seconds": seconds}
        with RunningService(triton, **settings):
            told = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]

    assert told == ["gateway.metrics_page_is_not_asked"] * is_told
