"""The dashboard *Triton replicas and GPU*: what each replica does, and where its time goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from gateway.observability import hardware, stages
from gateway.observability.panels import (
    MODEL,
    REPLICA,
    WIDTH,
    Row,
    Series,
    dashboard,
    figure,
    fill,
    graph,
    once,
    rate,
    ratio,
    stacked,
    variable,
)

if TYPE_CHECKING:
    from grafana_foundation_sdk.models.dashboard import Dashboard

    from gateway.observability.panels import Panel


def build() -> Dashboard:
    """Return the dashboard as Grafana's model."""
    replica = variable("replica", "Replica", "label_values(triton_up, replica)")
    model = variable("model", "Model", f"label_values(triton_model_ready{{{REPLICA}}}, model)")
    words = "Triton's own statistics, asked over gRPC, and the figures of its metrics port."
    empty = dashboard("Triton replicas and GPU", "speech-triton", words, [replica, model])
    speech = [stages.side_by_side(), stages.one_model(), stages.chunks()]
    below = [hardware.gpu(), hardware.language(), hardware.machine()]
    return fill(empty, [_health(), _traffic(), *speech, *below])


def _health() -> Row:
    up = once(f"triton_up{{{REPLICA}}}", "min")
    ready = once(f"triton_model_ready{{{MODEL}}}", "min")
    figures = [
        figure(
            "Replicas up",
            units.Short,
            f"sum({up})",
            "Those that answered the last question for their statistics, of each gateway.",
        ),
        figure(
            "Replicas down",
            units.Short,
            f"sum(1 - {up})",
            "Their other figures stop with them, so that nothing old looks alive.",
            bad_from=1,
        ),
        figure(
            "Models not ready",
            units.Short,
            f"sum(1 - {ready})",
            "Of replicas that are up. Ready is no proof: a model whose process died stays ready.",
            bad_from=1,
        ),
        figure(
            "Oldest statistics",
            units.Seconds,
            f"max(triton_snapshot_age_seconds{{{REPLICA}}})",
            "How old the oldest snapshot is that the gateway shows.",
            bad_from=60,
        ),
    ]
    return Row("Are they there", [*(one.span(WIDTH // len(figures)) for one in figures), *_times()])


def _times() -> list[Panel]:
    return [
        graph(
            "Up",
            units.Short,
            Series(once(f"triton_up{{{REPLICA}}}", "min"), "{{replica}}"),
            words="1 up, 0 down for a gateway at least.",
            top=1,
        ),
        graph(
            "Snapshots",
            units.Seconds,
            Series(once(f"triton_snapshot_age_seconds{{{REPLICA}}}"), "{{replica}} age"),
            Series(once(f"triton_snapshot_duration_seconds{{{REPLICA}}}"), "{{replica}} took"),
            words="A question that takes long is the first sign of a busy or a far replica.",
        ),
        graph(
            "Open streams",
            units.Short,
            Series(f"sum by (replica) (speech_segments_in_flight{{{MODEL}}})", "{{replica}}"),
            words="Calls that the gateway has open, one for each segment being spoken.",
        ),
    ]


def _traffic() -> Row:
    ended = "triton_inference_requests_total"
    failed = rate(ended, f'{MODEL},outcome="fail"', "replica, model")
    all_ended = rate(ended, MODEL, "replica, model")
    return Row(
        "What they do",
        [
            graph(
                "Requests",
                units.RequestsPerSecond,
                Series(rate(ended, MODEL, "replica, model"), "{{replica}} {{model}}"),
                words="As Triton counts them: a message of the gateway that cancels a stream is "
                "one more. Its full queues refuse without counting.",
            ),
            graph(
                "Failed",
                units.PercentUnit,
                Series(ratio(failed, all_ended), "{{replica}} {{model}}"),
                words="Of a decoupled model Triton counts a failure in the middle and a cancelled "
                "stream as success: 0 here proves nothing, look at failed streams.",
                top=1,
            ),
            stacked(
                "Failed streams, as the gateway sees them",
                units.RequestsPerSecond,
                Series(
                    rate("speech_upstream_errors_total", MODEL, "replica, class"),
                    "{{replica}} {{class}}",
                ),
                words="By the class of the failure; these are true for decoupled models too.",
            ),
        ],
    )
