"""What the dashboards and the alerts ask Prometheus, and the metrics that they name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import Metric

FOLDER = Path(__file__).parents[2] / "gateway" / "observability"
DASHBOARDS = {path.stem: path for path in sorted((FOLDER / "grafana/dashboards").glob("*.json"))}
METRIC = re.compile(r"\b(?:speech|triton|nv|process)_[a-z0-9_]+\b")


def dashboard(name: str) -> dict[str, Any]:
    """Return a dashboard as Grafana reads it."""
    return json.loads(DASHBOARDS[name].read_text(encoding="utf-8"))


def panels(name: str) -> list[dict[str, Any]]:
    """Return a dashboard's panels, its rows aside."""
    return [panel for panel in dashboard(name)["panels"] if panel["type"] != "row"]


class Query(NamedTuple):
    """What a panel asks, and what its legend says of each line."""

    dashboard: str
    expression: str
    legend: str


def queries() -> list[Query]:
    """Return the questions of every panel."""
    return [
        Query(name, target["expr"], target["legendFormat"])
        for name in DASHBOARDS
        for panel in panels(name)
        for target in panel["targets"]
    ]


def alerts() -> dict[str, dict[str, Any]]:
    """Return the alerts by their names."""
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def metrics(expression: str) -> set[str]:
    """Return the metrics that an expression names."""
    return set(METRIC.findall(expression))


def asked() -> list[str]:
    """Return every expression of panels, choices and alerts."""
    choices = (
        one["query"]["query"]
        for name in DASHBOARDS
        for one in dashboard(name)["templating"]["list"]
        if one["type"] == "query"
    )
    rules = (rule["expr"] for rule in alerts().values())
    return [*(query.expression for query in queries()), *choices, *rules]


def names(families: Iterable[Metric]) -> set[str]:
    """Return the names under which Prometheus has these families, also those without a sample."""
    ends = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    return {f"{family.name}{end}" for family in families for end in ends.get(family.type, ("",))}
