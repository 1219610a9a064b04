"""Rows about the stages of speech: queue, compute, batches, and what backends report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from gateway.observability.panels import (
    MODEL,
    REPLICA,
    Row,
    Series,
    graph,
    once,
    rate,
    ratio,
    stacked,
)

if TYPE_CHECKING:
    from gateway.observability.panels import Panel

STAGES = f'{REPLICA},model=~"audio_tokenizer|llm|tensorrt_llm|vocoder|spark_tts"'
DECOUPLED = (
    "For decoupled Python models this ends when execute() returns, not with the last "
    "chunk: the speech itself takes longer. Listener experience has the true times."
)


def mean_seconds(stage: str, labels: str, by: str) -> str:
    """Return the mean time that requests spend in a stage."""
    chosen = f'{labels},stage="{stage}"'
    return ratio(
        rate("triton_inference_stage_seconds_total", chosen, by),
        rate("triton_inference_stage_count_total", chosen, by),
    )


def side_by_side() -> Row:
    """Return the stages of Spark-TTS, to see which one is short of instances."""
    return Row(
        "Spark-TTS's stages side by side",
        [
            graph(
                "Queue, mean",
                units.Seconds,
                Series(mean_seconds("queue", STAGES, "model"), "{{model}}"),
                words="From arrival to execution. The stage whose queue grows is the one to give "
                "more instances. With in-flight batching the language model's is always near 0.",
            ),
            graph(
                "Compute, mean",
                units.Seconds,
                Series(mean_seconds("compute_infer", STAGES, "model"), "{{model}}"),
                words=DECOUPLED,
            ),
            graph(
                "Load",
                units.Short,
                Series(
                    rate(
                        "triton_inference_stage_seconds_total",
                        f'{STAGES},stage="compute_infer"',
                        "model",
                    ),
                    "{{model}}",
                ),
                words="Seconds of compute in each second, of all replicas: so many instances "
                f"are busy. {DECOUPLED}",
            ),
        ],
    )


def one_model() -> Row:
    """Return where the time of each model goes, a row for each that the variable names."""
    return Row("Queue and compute: $model", [*_times(), *_batches()], repeat="model")


def _times() -> list[Panel]:
    stages = ("queue", "compute_input", "compute_infer", "compute_output")
    last = f"max by (replica) (triton_last_inference_timestamp_seconds{{{MODEL}}})"
    return [
        stacked(
            "Queue and compute, mean",
            units.Seconds,
            *(Series(mean_seconds(stage, MODEL, ""), stage) for stage in stages),
            words=DECOUPLED,
        ),
        graph(
            "Whole request, mean",
            units.Seconds,
            Series(mean_seconds("success", MODEL, "replica"), "{{replica}} success"),
            Series(mean_seconds("fail", MODEL, "replica"), "{{replica}} fail"),
            words=DECOUPLED,
        ),
        graph(
            "Seconds since the last request",
            units.Seconds,
            Series(f"time() - {last}", "{{replica}}"),
            words="By Triton's clock against Prometheus': clocks that differ show here too.",
        ),
    ]


def _batches() -> list[Panel]:
    executions = rate("triton_batch_executions_total", MODEL, "batch_size")
    compute = f'{MODEL},stage="compute_infer"'
    seconds = rate("triton_batch_compute_seconds_total", compute, "batch_size")
    size = ratio(
        rate("triton_inferences_total", MODEL, "replica"),
        rate("triton_executions_total", MODEL, "replica"),
    )
    return [
        graph(
            "Batch size, mean",
            units.Short,
            Series(size, "{{replica}}"),
            words="1 where requests never wait for each other, or where the model batches "
            "inside (language model).",
        ),
        stacked(
            "Executions by batch size",
            units.OpsPerSecond,
            Series(executions, "{{batch_size}}"),
            words="Whether dynamic batching finds partners.",
        ),
        graph(
            "Cost of a batch",
            units.Seconds,
            Series(ratio(seconds, executions), "{{batch_size}}"),
            words="Mean compute of one execution: where it hardly grows with the size, "
            f"batching is free. {DECOUPLED}",
        ),
    ]


def chunks() -> Row:
    """Return what only some backends, and our own models, report."""
    memory = once(f"triton_model_memory_bytes{{{MODEL}}}")
    return Row(
        "Where a backend reports more",
        [
            stacked(
                "Responses",
                units.OpsPerSecond,
                Series(
                    rate("triton_responses_total", MODEL, "model, outcome"), "{{model}} {{outcome}}"
                ),
                words="Chunks of decoupled models. Neither the Python backend nor TensorRT-LLM's "
                "reports them, so it is empty with both.",
            ),
            graph(
                "Compute of a response, mean",
                units.Seconds,
                Series(
                    ratio(
                        rate(
                            "triton_response_seconds_total",
                            f'{MODEL},stage="compute_infer"',
                            "model, response_index",
                        ),
                        rate("triton_responses_total", MODEL, "model, response_index"),
                    ),
                    "{{model}} no. {{response_index}}",
                ),
                words="By its place in the stream, the first being 0. Empty with the Python "
                "backend.",
            ),
            stacked(
                "What our models count",
                units.RequestsPerSecond,
                Series(
                    rate("speech_model_requests_total", MODEL, "model, outcome"),
                    "{{model}} {{outcome}}",
                ),
                words="Counted by the model itself at the true end of each stream. It needs the "
                "replica's metrics port.",
            ),
            graph(
                "Memory of models",
                units.BytesIEC,
                Series(
                    f"sum by (replica, model, type) ({memory})",
                    "{{replica}} {{model}} {{type}}",
                ),
                words="Only backends that report it; Python's does not.",
            ),
        ],
    )
