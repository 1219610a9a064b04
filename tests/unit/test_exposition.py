"""What of Triton's own metrics page is passed on, and how."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from fakes.statistics import NATIVE
from gateway.telemetry.exposition import join, native_lines
from gateway.telemetry.triton_statistics import NATIVE_PREFIXES

PIECES = (
    *("nv_gpu_x", "a", "1", "NaN", "é", "{", "}", "=", '"', "\\", ","),
    *(" ", "\t", "\n", "#", "# TYPE ", "# HELP "),
)


def shown(*pages: str) -> str:
    """Return what is passed on of the pages of replicas a, b and c."""
    lines = [
        native_lines(page, NATIVE_PREFIXES, replica=name)
        for name, page in zip("abc", pages, strict=False)
    ]
    return join((), lines).decode()


def values(text: str, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by the values of its labels, which are sorted by name."""
    return {
        tuple(value for _, value in sorted(s.labels.items())): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
        if s.name == name
    }


def test_figures_of_the_machine_are_shown_under_their_own_names() -> None:
    text = shown(NATIVE, NATIVE)

    assert values(text, "nv_gpu_utilization") == {("GPU-1", "a"): 0.5, ("GPU-1", "b"): 0.5}
    assert values(text, "nv_cpu_memory_used_bytes") == {("a",): 2**20, ("b",): 2**20}
    assert text.count("# HELP nv_gpu_utilization GPU utilization rate [0.0 - 1.0)\n") == 1
    assert text.count("# TYPE nv_gpu_utilization gauge\n") == 1


def test_what_the_statistics_have_is_not_shown_twice() -> None:
    assert "nv_inference" in NATIVE
    assert "nv_inference" not in shown(NATIVE)


def test_counters_keep_their_names_with_and_without_total() -> None:
    text = shown(
        "# TYPE speech_model_tokens_total counter\nspeech_model_tokens_total 7\n"
        '# TYPE nv_trt_llm_steps counter\nnv_trt_llm_steps{model="llm"} 8\n'
    )

    assert "# TYPE speech_model_tokens_total counter\n" in text
    assert 'speech_model_tokens_total{replica="a"} 7.0\n' in text
    assert "# TYPE nv_trt_llm_steps counter\n" in text
    assert 'nv_trt_llm_steps{model="llm",replica="a"} 8.0\n' in text


def test_a_histogram_stays_one() -> None:
    text = shown(
        "# TYPE speech_model_seconds histogram\n"
        'speech_model_seconds_bucket{le="1"} 1\nspeech_model_seconds_bucket{le="+Inf"} 2\n'
        "speech_model_seconds_sum 3\nspeech_model_seconds_count 2\n"
    )

    assert "# TYPE speech_model_seconds histogram\n" in text
    assert values(text, "speech_model_seconds_bucket") == {("1", "a"): 1, ("+Inf", "a"): 2}
    assert values(text, "speech_model_seconds_sum") == {("a",): 3}


@pytest.mark.parametrize(
    ("others", "described"),
    [
        ("# HELP nv_gpu_x Other words\n# TYPE nv_gpu_x gauge\nnv_gpu_x 2\n", "gauge"),
        ("# HELP nv_gpu_x Words\n# TYPE nv_gpu_x counter\nnv_gpu_x 2\n", "untyped"),
        ("nv_gpu_x 2\n", "untyped"),
    ],
    ids=["other help", "other type", "no type"],
)
def test_replicas_that_describe_a_family_differently_are_one_all_the_same(
    others: str, described: str
) -> None:
    text = shown("# HELP nv_gpu_x Words\n# TYPE nv_gpu_x gauge\nnv_gpu_x 1\n", others)

    assert f"# HELP nv_gpu_x Words\n# TYPE nv_gpu_x {described}\n" in text
    assert text.count("# TYPE nv_gpu_x ") == 1
    assert values(text, "nv_gpu_x") == {("a",): 1, ("b",): 2}


def test_a_label_replica_of_the_page_itself_is_kept_beside_ours() -> None:
    assert values(shown('nv_gpu_x{replica="theirs"} 1\n'), "nv_gpu_x") == {("theirs", "a"): 1}


@given(st.lists(st.sampled_from(PIECES)))
def test_a_page_that_is_none_raises_nothing_but_valueerror(pieces: list[str]) -> None:
    with suppress(ValueError):
        native_lines("".join(pieces), NATIVE_PREFIXES, replica="a")
