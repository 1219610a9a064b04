"""Recordings are tokenised once: who asks meanwhile waits, and the next process knows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import pytest

from fakes.collector import FakeCollector
from fakes.service import assert_ended, message_of
from fakes.tokenizer import FakeTokenizer
from fakes.triton import Gate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fakes.service import RunningService
    from fakes.triton import FakeTriton

    Serve = Callable[..., RunningService]

ANNA = {"model": "spark_tts", "voice": "anna"}


def voices(triton: FakeTriton) -> list[int]:
    """Return the global tokens of each request, which are all the same number."""
    tokens = [set(request.global_tokens.tolist()) for request in triton.seen.requests]
    return [number for (number,) in tokens]


def test_first_requests_at_once_wait_for_one_run(spark: FakeTriton, serve: Serve) -> None:
    gate = Gate()
    spark.tokenizer = FakeTokenizer(gate=gate)

    with serve() as service, ThreadPoolExecutor() as pool:
        answers = [pool.submit(service.say, **ANNA) for _ in range(4)]
        service.wait_in_flight(len(answers))
        assert spark.tokenizer.runs.wait()
        gate.open()
        statuses = {answer.result().status_code for answer in answers}

    assert statuses == {200}
    assert spark.tokenizer.runs.count == 1


def test_who_leaves_does_not_take_the_tokens_from_the_others(
    spark: FakeTriton, serve: Serve
) -> None:
    gate = Gate()
    spark.tokenizer = FakeTokenizer(gate=gate)

    with serve() as service, ThreadPoolExecutor() as pool:
        first = service.send(**ANNA)
        assert spark.tokenizer.runs.wait()
        other = pool.submit(service.say, **ANNA)
        service.wait_in_flight(2)
        first.close()
        assert service.log.ended.wait()
        gate.open()
        assert other.result().status_code == 200
        assert_ended(service, spark, finished=1, cancelled=1)

    assert spark.tokenizer.runs.count == 1


def test_a_run_that_all_have_left_is_of_use_to_the_next(spark: FakeTriton, serve: Serve) -> None:
    gate = Gate()
    spark.tokenizer = FakeTokenizer(gate=gate)

    with serve() as service:
        first = service.send(**ANNA)
        assert spark.tokenizer.runs.wait()
        first.close()
        assert service.log.ended.wait()
        gate.open()
        assert service.say(**ANNA).status_code == 200

    assert spark.tokenizer.runs.count == 1


def test_a_service_stops_while_a_recording_is_tokenised(spark: FakeTriton, serve: Serve) -> None:
    spark.tokenizer = FakeTokenizer(gate=Gate())

    with serve() as service:
        first = service.send(**ANNA)
        assert spark.tokenizer.runs.wait()
        first.close()
        assert service.log.ended.wait()


FAILURES = [
    # id, tokenizer, status, code, words
    (
        "error",
        FakeTokenizer(status=(grpc.StatusCode.INTERNAL, "boom")),
        502,
        "backend_failed",
        "'audio_tokenizer' could not tokenise",
    ),
    (
        "died",
        FakeTokenizer(status=(grpc.StatusCode.UNAVAILABLE, "is not healthy")),
        503,
        "backend_unavailable",
        "'audio_tokenizer' could not tokenise",
    ),
    (
        "no voice",
        FakeTokenizer(
            answer={
                "global_tokens": np.zeros(31, np.int32),
                "semantic_tokens": np.zeros(9, np.int32),
            }
        ),
        502,
        "backend_failed",
        "no voice",
    ),
    (
        "no speech",
        FakeTokenizer(
            answer={
                "global_tokens": np.zeros(32, np.int32),
                "semantic_tokens": np.zeros(0, np.int32),
            }
        ),
        502,
        "backend_failed",
        "no voice",
    ),
    (
        "floats",
        FakeTokenizer(
            answer={
                "global_tokens": np.zeros(32, np.float32),
                "semantic_tokens": np.zeros(9, np.int32),
            }
        ),
        502,
        "backend_failed",
        "no voice",
    ),
    (
        "half",
        FakeTokenizer(answer={"global_tokens": np.zeros(32, np.int32)}),
        502,
        "backend_failed",
        "no voice",
    ),
    ("none", None, 500, "misconfigured", "'audio_tokenizer' on Triton (SPEECH_TOKENIZER_MODEL)"),
    ("another", FakeTokenizer(name="other"), 500, "misconfigured", "SPEECH_TOKENIZER_MODEL"),
]


@pytest.mark.parametrize(
    ("tokenizer", "status", "code", "words"),
    [pytest.param(*row[1:], id=row[0]) for row in FAILURES],
)
def test_a_failure_is_said_and_not_remembered(
    spark: FakeTriton, serve: Serve, tokenizer: Any, status: int, code: str, words: str
) -> None:
    spark.tokenizer = tokenizer

    with serve() as service:
        assert words in message_of(service.say(**ANNA), status, code)
        assert spark.seen.requests == []

        spark.tokenizer = FakeTokenizer()
        assert service.say(**ANNA).status_code == 200
        assert_ended(service, spark, failed=1, finished=1)


def test_a_run_that_fails_is_counted_as_a_call_to_triton(spark: FakeTriton, serve: Serve) -> None:
    labels = {"model": "audio_tokenizer", "class": "failed"}

    with serve() as service:
        service.wait_state(spark.address, "ready")
        before = service.metric("speech_upstream_errors_total", **labels)
        spark.tokenizer = FakeTokenizer(status=(grpc.StatusCode.INTERNAL, "boom"))
        assert service.say(**ANNA).status_code == 502
        after = service.metric("speech_upstream_errors_total", **labels)

    assert (before, after) == (0, 1)


def test_a_run_is_in_the_trace_of_who_came_first(spark: FakeTriton, serve: Serve) -> None:
    with FakeCollector() as collector, serve(otlp_endpoint=collector.endpoint) as service:
        for _ in range(2):
            assert service.say(**ANNA).status_code == 200

    [run] = [span for span in collector.spans if span.name == "triton.tokenise"]
    segment = next(span for span in collector.spans if span.name == "speech.segment")
    assert run.parent_id == segment.span_id
    assert run.attributes["speech.model"] == "audio_tokenizer"
    assert run.attributes["speech.replica"] == spark.address


def test_a_model_that_is_no_tokenizer_is_named(serve: Serve) -> None:
    with serve(tokenizer_model="spark_tts") as service:
        message = message_of(service.say(**ANNA), 500, "misconfigured")

    assert "'spark_tts' is no tokenizer" in message
    assert "SPEECH_TOKENIZER_MODEL" in message


def test_a_tokenizer_that_says_nothing_times_out(spark: FakeTriton, serve: Serve) -> None:
    spark.tokenizer = FakeTokenizer(gate=Gate())

    with serve(first_audio_timeout_seconds=0.2) as service:
        assert "could not tokenise" in message_of(service.say(**ANNA), 504, "backend_timeout")


def test_a_restarted_service_needs_no_run(spark: FakeTriton, serve: Serve) -> None:
    for _ in range(2):
        with serve() as service:
            assert service.say(**ANNA).status_code == 200

    assert spark.tokenizer.runs.count == 1
    assert voices(spark) == [100, 100]


def test_a_broken_cache_file_is_made_anew(spark: FakeTriton, serve: Serve, tmp_path: Path) -> None:
    with serve() as service:
        service.say(**ANNA)
    [file] = (tmp_path / "cache").iterdir()
    good = file.read_bytes()
    file.write_bytes(good[:100])

    with serve() as service:
        assert service.say(**ANNA).status_code == 200
        assert any("voice.cache_unreadable" in line for line in service.log.lines)

    assert file.read_bytes() == good
    assert spark.tokenizer.runs.count == 2


@pytest.mark.parametrize("change", ["checkpoint", "name", "recording"])
def test_what_changes_the_tokens_makes_them_anew(
    spark: FakeTriton, serve: Serve, voices_file: Path, change: str
) -> None:
    with serve() as service:
        service.say(**ANNA)
    name = "other" if change == "name" else "audio_tokenizer"
    checkpoint = "two" if change == "checkpoint" else "one"
    spark.tokenizer = FakeTokenizer(name=name, checkpoint=checkpoint)
    if change == "recording":
        voices_file.write_text(voices_file.read_text("utf-8").replace("anna.wav", "carl.flac"))

    with serve(tokenizer_model=name) as service:
        assert service.say(**ANNA).status_code == 200

    assert spark.tokenizer.runs.count == 1
    assert voices(spark) == [100, 150 if change == "recording" else 100]


def test_another_transcript_needs_no_run(
    spark: FakeTriton, serve: Serve, voices_file: Path
) -> None:
    with serve() as service:
        service.say(**ANNA)
    voices_file.write_text(voices_file.read_text("utf-8").replace("What anna says.", "Else."))

    with serve() as service:
        service.say(**ANNA)

    assert [request.reference_text for request in spark.seen.requests] == [
        "What anna says.",
        "Else.",
    ]
    assert spark.tokenizer.runs.count == 1


def test_another_tokenizer_after_a_restart_of_triton_is_seen(
    spark: FakeTriton, serve: Serve
) -> None:
    """Else the old one's tokens, from memory, would be sent for ever."""
    with serve() as service:
        service.say(**ANNA)
        spark.tokenizer = FakeTokenizer(checkpoint="two")
        assert service.client.get("/readyz").status_code == 200
        service.say(**ANNA)

    assert spark.tokenizer.runs.count == 1
