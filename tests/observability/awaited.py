"""Metrics that are agreed but not exported yet: delete what has arrived, in the end both sets."""

AWAITED = {
    "speech_errors_total",
    "speech_first_chunk_seconds_bucket",
    "speech_chunk_gap_seconds_bucket",
    "speech_stream_seconds_bucket",
    "speech_realtime_factor_bucket",
    "speech_text_characters_total",
    "speech_requests_cancelled_total",
    "speech_streams_broken_total",
    "speech_underrun_seconds_total",
    "speech_underruns_total",
    "speech_segments_in_flight",
    "speech_upstream_errors_total",
    "triton_up",
    "triton_snapshot_age_seconds",
    "triton_snapshot_duration_seconds",
    "triton_model_ready",
    "triton_inference_requests_total",
    "triton_inference_stage_seconds_total",
    "triton_inference_stage_count_total",
    "triton_inferences_total",
    "triton_executions_total",
    "triton_batch_executions_total",
    "triton_batch_compute_seconds_total",
    "triton_model_memory_bytes",
    "triton_last_inference_timestamp_seconds",
    "triton_responses_total",
    "triton_response_seconds_total",
}

# The gateway does not ask Triton's own page yet.
AWAITED_OF_TRITONS_PAGE = {
    "nv_cpu_memory_total_bytes",
    "nv_cpu_memory_used_bytes",
    "nv_cpu_utilization",
    "nv_pinned_memory_pool_total_bytes",
    "nv_pinned_memory_pool_used_bytes",
    "speech_model_requests_total",
}
