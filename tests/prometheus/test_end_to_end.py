"""What Grafana and the alerts would see of a real service: every question has its answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from observability.expressions import alerts, queries
from prometheus.conftest import counted
from prometheus.server import until

if TYPE_CHECKING:
    from observability.expressions import Query
    from prometheus.conftest import Story

# What has no answer here, and why.
UNANSWERED = {
    r"nv_gpu_": "no GPU",
    r"nv_trt_llm_": "no TensorRT-LLM",
    r"triton_respon": "Triton's Python backend reports none",
    r"triton_model_memory_bytes": "Triton's Python backend reports none",
}
THRESHOLD = re.compile(r"\s(?:==|>=|>)\s[\d.]+")


def filled(expression: str) -> str:
    """Return an expression as Grafana sends it; our one model stands in for Spark-TTS's."""
    expression = expression.replace("audio_tokenizer|llm|tensorrt_llm|vocoder|spark_tts", "hibari")
    for name, value in (("model", "hibari"), ("replica", ".+"), ("__rate_interval", "1m")):
        expression = expression.replace(f"${name}", value)
    return expression


def reason(expression: str) -> str | None:
    return next((why for part, why in UNANSWERED.items() if re.search(part, expression)), None)


@pytest.mark.parametrize("query", queries(), ids=lambda query: query.expression[:60])
def test_a_panel_shows_something(story: Story, query: Query) -> None:
    """A panel is empty only for a stated reason that still holds; legends name real labels."""
    series = story.prometheus.series(filled(query.expression))

    assert bool(series) is (reason(query.expression) is None)
    for name in re.findall(r"\{\{(\w+)\}\}", query.legend):
        assert [labels for labels, _ in series if name not in labels] == []


@pytest.mark.parametrize("name", alerts())
def test_an_alert_measures_something(story: Story, name: str) -> None:
    """What an alert compares with its threshold is there."""
    measured = THRESHOLD.split(alerts()[name]["expr"])[0]

    assert bool(story.prometheus.series(measured)) is (reason(measured) is None)


def test_every_rule_is_well(story: Story) -> None:
    groups = story.prometheus.get("rules")["groups"]
    rules = {rule["name"]: rule for group in groups for rule in group["rules"]}

    assert set(rules) == set(alerts())
    assert {name: r["lastError"] for name, r in rules.items() if r["health"] != "ok"} == {}


def test_an_alert_comes_while_triton_is_away(story: Story) -> None:
    """It says how bad it is, in its words."""
    assert re.match(r"hibari: [\d.]+% of the requests fail$", story.alert["summary"])


def test_requests_are_counted_as_their_callers_did(story: Story) -> None:
    """By outcome, with a Triton that died and came back in between."""
    load = story.load.outcomes

    for outcome in ("finished", "failed", "rejected", "cancelled"):
        seen = story.prometheus.total(f'speech_requests_total{{outcome="{outcome}"}}')
        assert seen == load[outcome] > 0
    assert story.prometheus.total('speech_requests_total{outcome="timed_out"}') == 0


def test_no_audio_is_missing(story: Story) -> None:
    """Those who hung up got some too, and less than the longest text has."""
    seen = story.prometheus.total("speech_audio_seconds_total")

    assert story.load.audio_seconds < seen < story.load.audio_seconds * 20


def test_first_sounds_are_as_many_as_streams(story: Story) -> None:
    load = story.load.outcomes

    seen = story.prometheus.total("speech_first_audio_seconds_count")
    assert seen == load["finished"] + load["cancelled"]


def test_tritons_counters_grow_across_a_restart_as_tritons_own(story: Story) -> None:
    """What both Tritons counted on their own pages, the dead one's last figure included."""
    until(
        lambda: story.prometheus.triton_requests() == story.before_death + counted(story.ports),
        "Prometheus has what Triton counts",
    )
