"""Rows about GPUs, TensorRT-LLM and machines, from the metrics ports of the replicas."""

from __future__ import annotations

from grafana_foundation_sdk.models import units

from gateway.observability.panels import REPLICA, Row, Series, graph, once, ratio


def gpu() -> Row:
    """Return Triton's figures of its GPUs."""
    return Row(
        "GPU (needs the replicas' metrics ports)",
        [
            graph(
                "GPU busy",
                units.PercentUnit,
                Series(once(f"nv_gpu_utilization{{{REPLICA}}}"), "{{replica}} {{gpu_uuid}}"),
                words="Share of time with any kernel running, sampled by Triton: 100 % is not "
                "full.",
                top=1,
            ),
            graph(
                "GPU memory",
                units.BytesIEC,
                Series(
                    once(f"nv_gpu_memory_used_bytes{{{REPLICA}}}"), "{{replica}} {{gpu_uuid}} used"
                ),
                Series(
                    once(f"nv_gpu_memory_total_bytes{{{REPLICA}}}"),
                    "{{replica}} {{gpu_uuid}} there",
                ),
                words="TensorRT-LLM takes its share for the KV cache at start, so it is flat.",
            ),
            graph(
                "GPU power",
                units.Watt,
                Series(once(f"nv_gpu_power_usage{{{REPLICA}}}"), "{{replica}} {{gpu_uuid}}"),
                Series(once(f"nv_gpu_power_limit{{{REPLICA}}}"), "{{replica}} {{gpu_uuid}} limit"),
                words="The better sign of how full a GPU is.",
            ),
        ],
    )


def language() -> Row:
    """Return what TensorRT-LLM says of its engine."""
    requests = once(f"nv_trt_llm_request_metrics{{{REPLICA}}}")
    blocks = f"nv_trt_llm_kv_cache_block_metrics{{{REPLICA},kv_cache_block_type="
    used, there = once(f'{blocks}"used"}}'), once(f'{blocks}"max"}}')
    batching = once(
        f"nv_trt_llm_inflight_batcher_metrics{{{REPLICA},"
        'inflight_batcher_specific_metric!="micro_batch_id"}'
    )
    return Row(
        "TensorRT-LLM (needs the replicas' metrics ports)",
        [
            graph(
                "Requests in the engine",
                units.Short,
                Series(
                    f"sum by (request_type) ({requests})",
                    "{{request_type}}",
                ),
                words="Active above scheduled: requests wait for KV cache, though the queue is 0.",
            ),
            graph(
                "KV cache used",
                units.PercentUnit,
                Series(
                    ratio(f"sum by (replica) ({used})", f"sum by (replica) ({there})"),
                    "{{replica}}",
                ),
                words="At 100 % new requests wait (max_tokens_in_paged_kv_cache bounds it).",
                top=1,
            ),
            graph(
                "In-flight batching",
                units.Short,
                Series(
                    f"sum by (inflight_batcher_specific_metric) ({batching})",
                    "{{inflight_batcher_specific_metric}}",
                ),
                words="Paused requests above 0 were thrown out and will be computed again.",
            ),
        ],
    )


def machine() -> Row:
    """Return CPU and memory of the machines."""
    return Row(
        "The replicas' machines (needs the metrics ports)",
        [
            graph(
                "CPU busy",
                units.PercentUnit,
                Series(once(f"nv_cpu_utilization{{{REPLICA}}}"), "{{replica}}"),
                words="Of the whole machine, sampled by Triton.",
                top=1,
            ),
            graph(
                "Memory",
                units.BytesIEC,
                Series(once(f"nv_cpu_memory_used_bytes{{{REPLICA}}}"), "{{replica}} used"),
                Series(once(f"nv_cpu_memory_total_bytes{{{REPLICA}}}"), "{{replica}} there"),
                words="Of the whole machine.",
            ),
            graph(
                "Pinned memory",
                units.BytesIEC,
                Series(once(f"nv_pinned_memory_pool_used_bytes{{{REPLICA}}}"), "{{replica}} used"),
                Series(
                    once(f"nv_pinned_memory_pool_total_bytes{{{REPLICA}}}"), "{{replica}} there"
                ),
                words="Our own Triton has no such pool.",
            ),
        ],
    )
