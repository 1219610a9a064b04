"""What both dashboards are made of: panels, variables, rows and PromQL that both need."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from grafana_foundation_sdk.builders import common as options
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import heatmap, prometheus, stat, timeseries
from grafana_foundation_sdk.models import common, units
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

Panel: TypeAlias = "timeseries.Panel | stat.Panel | heatmap.Panel"

DATASOURCE = models.DataSourceRef("prometheus", "${datasource}")
REPLICA = 'replica=~"$replica"'
MODEL = f'{REPLICA},model=~"$model"'
"""Labels of Triton's figures, chosen by the dashboard's variables."""
WIDTH = 24
GRAPH_WIDTH, GRAPH_HEIGHT = WIDTH // 3, 8
FIGURE_WIDTH, FIGURE_HEIGHT = WIDTH // 6, 4
OF_TRITON = ("triton_", "nv_", "speech_model_")
"""How the metrics begin that each gateway shows of each Triton that it asks."""
NEVER_ZERO = "1e-9"
"""Stands for a rate of nothing, so that a share of nothing is 0 and not NaN."""


class Series(NamedTuple):
    """A query and what the legend calls its lines (`{{model}}` is the label's value)."""

    expression: str
    legend: str


class Row(NamedTuple):
    """A title and the panels below it; once for each value of the variable `repeat`."""

    title: str
    panels: Sequence[Panel]
    repeat: str | None = None


def once(series: str, of: str = "max") -> str:
    """Return figures of Triton as one gateway shows them, where several ask the same Triton."""
    return f"{of} without (instance, job) ({series})"


def rate(metric: str, labels: str, by: str = "") -> str:
    """Return the events per second of a counter, summed but for the labels `by`."""
    each = f"rate({metric}{{{labels}}}[$__rate_interval])"
    return f"sum by ({by}) ({once(each) if metric.startswith(OF_TRITON) else each})"


def ratio(part: str, whole: str) -> str:
    """Return a quotient of two rates that is 0, not NaN, where nothing happened."""
    return f"{part} / clamp_min({whole}, {NEVER_ZERO})"


def quantile(share: float, histogram: str, labels: str, by: str) -> str:
    """Return a quantile of what `labels` choose, for each value of the labels `by`.

    Where nothing was observed it is NaN, which Grafana shows as a gap.
    """
    return f"histogram_quantile({share}, {rate(f'{histogram}_bucket', labels, f'le, {by}')})"


def percentiles(histogram: str, labels: str, *shares: float) -> list[Series]:
    """Return a line for each share and model."""
    return [
        Series(quantile(share, histogram, labels, "model"), f"{{{{model}}}} {share:.0%}")
        for share in shares
    ]


def graph(
    title: str, unit: str, *series: Series, words: str, top: float | None = None
) -> timeseries.Panel:
    """Return lines over time; `words` say what the figure means and where it lies."""
    legend = options.VizLegendOptions().display_mode(common.LegendDisplayMode.LIST)
    panel = (
        timeseries.Panel()
        .title(title)
        .description(words)
        .datasource(DATASOURCE)
        .unit(unit)
        .min(0)
        .fill_opacity(8)
        .legend(legend.placement(common.LegendPlacement.BOTTOM).show_legend(show_legend=True))
        .tooltip(options.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
        .span(GRAPH_WIDTH)
        .height(GRAPH_HEIGHT)
    )
    if top is not None:
        panel = panel.max(top)
    for letter, one in zip("ABCDEFG", series, strict=False):
        panel = panel.with_target(_query(one, letter))
    return panel


def stacked(title: str, unit: str, *series: Series, words: str) -> timeseries.Panel:
    """Return areas that add up."""
    stacking = options.StackingConfig().mode(common.StackingMode.NORMAL)
    return graph(title, unit, *series, words=words).stacking(stacking).fill_opacity(30)


def figure(
    title: str, unit: str, expression: str, words: str, *, bad_from: float | None = None
) -> stat.Panel:
    """Return one number, red from `bad_from` on."""
    steps = [models.Threshold(value=None, color="green")]
    if bad_from is not None:
        steps.append(models.Threshold(value=bad_from, color="red"))
    return (
        stat.Panel()
        .title(title)
        .description(words)
        .datasource(DATASOURCE)
        .unit(unit)
        .thresholds(builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps))
        .color_mode(common.BigValueColorMode.VALUE)
        # The last that is a number: the last alone is often an empty minute.
        .reduce_options(options.ReduceDataOptions().calcs(["lastNotNull"]))
        .span(FIGURE_WIDTH)
        .height(FIGURE_HEIGHT)
        .with_target(_query(Series(expression, ""), "A"))
    )


def heat(title: str, histogram: str, labels: str, words: str) -> heatmap.Panel:
    """Return a histogram over time: the darker, the more."""
    query = _query(Series(rate(f"{histogram}_bucket", labels, "le"), "{{le}}"), "A")
    colour = heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Oranges")
    return (
        heatmap.Panel()
        .title(title)
        .description(words)
        .datasource(DATASOURCE)
        .calculate(calculate=False)
        .color(colour.steps(64))
        .y_axis(heatmap.YAxisConfig().unit(units.Seconds))
        .show_legend()
        .span(GRAPH_WIDTH)
        .height(GRAPH_HEIGHT)
        .with_target(query.format(PromQueryFormat.HEATMAP))
    )


def variable(name: str, label: str, query: str) -> builders.QueryVariable:
    """Return a choice of label values; all of them at first."""
    return (
        builders.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query({"query": query, "refId": name})
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(multi=True)
        .include_all(include_all=True)
        # Else "All" is a list of those that there were when the page was opened.
        .all_value(".*")
        .current(models.VariableOption(selected=True, text="All", value="$__all"))
    )


def dashboard(
    title: str, uid: str, words: str, variables: Sequence[builders.QueryVariable]
) -> builders.Dashboard:
    """Return an empty dashboard with its choices, and alerts as marks on the time axis."""
    alerts = (
        builders.AnnotationQuery()
        .name("Alerts")
        .datasource(DATASOURCE)
        .enable(enable=True)
        .icon_color("red")
        .expr('ALERTS{alertstate="firing",alertname=~"Speech.+|Triton.+"}')
    )
    source = builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
    made = (
        builders.Dashboard(title)
        .uid(uid)
        .description(words)
        .tags(["speech-gateway"])
        .refresh("30s")
        .time("now-1h", "now")
        .timezone(common.TimeZoneBrowser)
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .annotation(alerts)
        .link(
            builders.DashboardLink("Speech gateway")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags(["speech-gateway"])
            .keep_time(keep_time=True)
        )
        .with_variable(source)
    )
    for one in variables:
        made = made.with_variable(one)
    return made


def fill(empty: builders.Dashboard, rows: Sequence[Row]) -> models.Dashboard:
    """Return the dashboard with these rows, each panel numbered."""
    ids = count(1)
    for title, panels, repeat in rows:
        head = builders.Row(title).id(next(ids))
        empty = empty.with_row(head.repeat(repeat) if repeat else head)
        for panel in panels:
            empty = empty.with_panel(panel.id(next(ids)))
    return empty.build()


def _query(series: Series, letter: str) -> prometheus.Dataquery:
    return (
        prometheus.Dataquery()
        .expr(series.expression)
        .legend_format(series.legend)
        .ref_id(letter)
        .range()
    )
