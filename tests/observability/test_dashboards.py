"""The dashboards are what their source says, and ask only for what the service has."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from observability.expressions import (
    DASHBOARDS,
    alerts,
    asked,
    dashboard,
    metrics,
    names,
    panels,
    queries,
)

if TYPE_CHECKING:
    from pathlib import Path

    from fakes.service import RunningService

# From Triton's own page, which the fake one does not have: NVIDIA's names, and our models' counter.
OF_TRITONS_PAGE = {
    "nv_cpu_memory_total_bytes",
    "nv_cpu_memory_used_bytes",
    "nv_cpu_utilization",
    "nv_gpu_memory_total_bytes",
    "nv_gpu_memory_used_bytes",
    "nv_gpu_power_limit",
    "nv_gpu_power_usage",
    "nv_gpu_utilization",
    "nv_pinned_memory_pool_total_bytes",
    "nv_pinned_memory_pool_used_bytes",
    "nv_trt_llm_inflight_batcher_metrics",
    "nv_trt_llm_kv_cache_block_metrics",
    "nv_trt_llm_request_metrics",
    "speech_model_requests_total",
}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Grafana's SDK needs Python 3.11")
def test_json_is_what_make_dashboards_writes(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-I", "-m", "gateway.observability", tmp_path], check=True, timeout=60
    )

    written = {path.stem: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert written == {name: path.read_text(encoding="utf-8") for name, path in DASHBOARDS.items()}


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_panel_asks_something_and_says_what_it_means(name: str) -> None:
    bare = [
        panel["title"]
        for panel in panels(name)
        if not all(target.get("expr") for target in panel["targets"])
        or not panel["targets"]
        or not panel["description"]
    ]

    assert panels(name)
    assert bare == []


def test_numbers_and_names_are_given_once() -> None:
    for name in DASHBOARDS:
        ids = [panel["id"] for panel in dashboard(name)["panels"]]
        assert sorted(ids) == list(range(1, len(ids) + 1))
    assert len({dashboard(name)["uid"] for name in DASHBOARDS}) == len(DASHBOARDS)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_no_panel_lies_on_another(name: str) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboard(name)["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert x < 24, panel["title"]
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_units_are_grafanas(name: str) -> None:
    units = pytest.importorskip("grafana_foundation_sdk.models.units")
    known = {unit for unit in vars(units).values() if isinstance(unit, str)}
    used = {unit_of(panel) for panel in panels(name)}

    assert used <= known


def unit_of(panel: dict[str, Any]) -> str:
    """Return the unit of the axis or the number."""
    if panel["type"] == "heatmap":
        return str(panel["options"]["yAxis"]["unit"])
    return str(panel["fieldConfig"]["defaults"]["unit"])


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_choice_is_used_and_every_one_used_is_there(name: str) -> None:
    there = {one["name"] for one in dashboard(name)["templating"]["list"]}
    text = DASHBOARDS[name].read_text(encoding="utf-8")
    used = set(re.findall(r"\$\{?([a-z]+)\b", text))

    assert used == there


def test_rates_fit_the_scrape_interval_that_grafana_knows() -> None:
    """A window of fixed length is empty where Prometheus asks less often."""
    expressions = [query.expression for query in queries()]
    fixed = [e for e in expressions if re.search(r"\[(?!\$__rate_interval\])", e)]

    assert fixed == []


def test_figures_of_a_triton_are_taken_once_however_many_gateways_show_them() -> None:
    """Each gateway shows each Triton that it asks, so a sum over gateways would count it twice."""
    shown = re.compile(r"\b(?:triton_|nv_|speech_model_)\w+")
    one_of = r"(?:max|min)(?: (?:by|without) \([a-z, ]+\) )?\((?:rate\()?$"
    rules = [rule["expr"] for rule in alerts().values()]
    twice = [
        expression
        for expression in (*(query.expression for query in queries()), *rules)
        for metric in shown.finditer(expression)
        if not re.search(one_of, expression[: metric.start()])
    ]

    assert twice == []


def test_a_number_is_the_last_that_there_is() -> None:
    numbers = [panel for name in DASHBOARDS for panel in panels(name) if panel["type"] == "stat"]

    assert numbers
    assert {str(n["options"]["reduceOptions"]["calcs"]) for n in numbers} == {"['lastNotNull']"}


def test_all_is_whatever_there_is() -> None:
    lists = [dashboard(name)["templating"]["list"] for name in DASHBOARDS]
    choices = [one for each in lists for one in each if one["type"] == "query"]

    assert choices
    assert {one["allValue"] for one in choices} == {".*"}


def test_every_metric_exists(service: RunningService) -> None:
    """Each name in a panel, a choice or an alert is on the page of a running service."""
    there = names(text_string_to_metric_families(service.client.get("/metrics").text))
    named = set().union(*(metrics(expression) for expression in asked()))
    nameless = [e for e in asked() if not metrics(e) and not e.startswith("up{")]

    assert nameless == []
    assert named - there - OF_TRITONS_PAGE == set()
    assert OF_TRITONS_PAGE - named == set(), "no panel shows these"


@pytest.mark.parametrize("name", alerts())
def test_an_alert_says_what_is_wrong_and_where_to_look(name: str) -> None:
    rule = alerts()[name]

    assert rule["for"]
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert "{{" in rule["annotations"]["summary"], "the summary names what it is about"
    assert len(rule["annotations"]["description"]) > 50
