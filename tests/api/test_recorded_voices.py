"""Voices that are cloned from a recording: tokenised once, sent as tokens or as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fakes.service import assert_ended, message_of
from fakes.tokenizer import FakeTokenizer, tokens_of
from fakes.triton import Fail, Script, tone

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakes.service import RunningService
    from fakes.triton import FakeTriton
    from speech_wire import SynthesisRequest

    Serve = Callable[..., RunningService]

ANNA = {"model": "spark_tts", "voice": "anna"}
CARL = {"model": "spark_tts", "voice": "carl"}
SAMPLES = {"anna": 32_000, "carl": 48_000}
LONG = "This is the first sentence of a text. " * 8


def assert_voice(request: SynthesisRequest, voice: str) -> None:
    """Assert that the request carries this voice's tokens, and nothing else that is a voice."""
    global_tokens, _ = tokens_of(SAMPLES[voice])
    assert np.array_equal(request.global_tokens, global_tokens)
    assert request.voice is request.gender is request.reference_wav is None


def test_with_a_transcript_the_model_goes_on_speaking(spark: FakeTriton, serve: Serve) -> None:
    with serve() as service:
        answer = service.say(**ANNA)

    [request] = spark.seen.requests
    assert answer.status_code == 200
    assert_voice(request, "anna")
    assert np.array_equal(request.semantic_tokens, tokens_of(SAMPLES["anna"])[1])
    assert request.reference_text == "What anna says."


def test_without_one_it_gets_the_voice_alone(spark: FakeTriton, serve: Serve) -> None:
    with serve() as service:
        answer = service.say(**CARL)

    [request] = spark.seen.requests
    assert answer.status_code == 200
    assert_voice(request, "carl")
    assert request.semantic_tokens is request.reference_text is None


def test_every_segment_has_the_voice_and_one_run_serves_all(
    spark: FakeTriton, serve: Serve
) -> None:
    with serve() as service:
        answers = [service.say(**ANNA, input=LONG), service.say(**CARL), service.say(**ANNA)]

    assert {answer.status_code for answer in answers} == {200}
    *segments, carls, annas = spark.seen.requests
    assert len(segments) > 1
    for request in (*segments, annas):
        assert_voice(request, "anna")
    assert_voice(carls, "carl")
    assert spark.tokenizer.runs.count == 2


def test_upstreams_tokenizer_gives_the_same(spark: FakeTriton, serve: Serve) -> None:
    spark.tokenizer = FakeTokenizer(is_upstream=True)

    with serve() as service:
        answer = service.say(**ANNA)

    [request] = spark.seen.requests
    assert answer.status_code == 200
    assert_voice(request, "anna")
    assert np.array_equal(request.semantic_tokens, tokens_of(SAMPLES["anna"])[1])


UPSTREAM = Script(
    is_batched=True, extra_inputs=("reference_wav", "reference_wav_len", "reference_text")
)


def test_upstreams_model_gets_the_recording_itself(spark: FakeTriton, serve: Serve) -> None:
    spark.script = UPSTREAM
    spark.tokenizer = None

    with serve() as service:
        answer = service.say(**ANNA)

    [request] = spark.seen.requests
    assert answer.status_code == 200
    assert np.array_equal(request.reference_wav, tone(SAMPLES["anna"], 16_000))
    assert request.reference_text == "What anna says."
    assert request.global_tokens is None


def test_upstreams_model_needs_a_transcript(spark: FakeTriton, serve: Serve) -> None:
    spark.script = UPSTREAM

    with serve() as service:
        message = message_of(service.say(**CARL), 500, "misconfigured")

    assert "'carl'" in message
    assert "transcript" in message
    assert spark.seen.requests == []


@pytest.mark.parametrize(
    ("extra_inputs", "lacking"),
    [
        ((), "no input reference_wav or reference_text"),
        (("global_tokens",), "no input semantic_tokens or reference_text"),
    ],
)
def test_a_model_that_cannot_clone_is_named_with_what_it_lacks(
    spark: FakeTriton, serve: Serve, extra_inputs: tuple[str, ...], lacking: str
) -> None:
    spark.script = replace(spark.script, is_spark=False, extra_inputs=extra_inputs)

    with serve() as service:
        message = message_of(service.say(**ANNA), 500, "misconfigured")

    assert "voice 'anna' of SPEECH_VOICES_FILE" in message
    assert "'spark_tts'" in message
    assert lacking in message
    assert spark.seen.requests == []


def test_an_error_of_the_model_is_as_ever(spark: FakeTriton, serve: Serve) -> None:
    spark.script = replace(spark.script, steps=[Fail("invalid_input: too long")])

    with serve() as service:
        assert message_of(service.say(**ANNA), 400, "invalid_value") == "too long"
        assert_ended(service, spark, rejected=1)
