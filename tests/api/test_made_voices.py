"""Voices that a model makes from labels: made once, the same person from then on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fakes.service import assert_ended
from fakes.triton import Fail, Gate, tones

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fakes.service import RunningService
    from fakes.triton import FakeTriton
    from speech_wire import SynthesisRequest

    Serve = Callable[..., RunningService]

BOB = {"model": "spark_tts", "voice": "bob"}
LONG = "This is the first sentence of a text. " * 8


def makers(triton: FakeTriton) -> list[SynthesisRequest]:
    """Return the requests that asked for a new voice."""
    return [request for request in triton.seen.requests if request.gender is not None]


def assert_bob(request: SynthesisRequest, tokens: int = 1) -> None:
    """Assert that the request carries the voice with these tokens, and nothing to make one."""
    assert np.array_equal(request.global_tokens, np.full(32, tokens))
    assert request.semantic_tokens is request.reference_text is request.voice is None
    assert request.gender is request.pitch is request.speed_label is None


def test_the_first_segment_makes_the_voice_and_all_later_ones_have_it(
    spark: FakeTriton, serve: Serve
) -> None:
    with serve() as service:
        answers = [service.say(**BOB, input=LONG), service.say(**BOB)]

    first, *later = spark.seen.requests
    assert {answer.status_code for answer in answers} == {200}
    assert (first.gender, first.pitch, first.speed_label) == ("male", "low", "moderate")
    assert first.global_tokens is first.voice is None
    assert len(later) > 2
    for request in later:
        assert_bob(request)


def test_the_voice_survives_a_restart(spark: FakeTriton, serve: Serve) -> None:
    for _ in range(2):
        with serve() as service:
            assert service.say(**BOB).status_code == 200

    assert len(makers(spark)) == 1
    assert_bob(spark.seen.requests[1])


@pytest.mark.parametrize("change", ["label", "name", "checkpoint"])
def test_another_voice_or_model_makes_another(
    spark: FakeTriton, serve: Serve, voices_file: Path, change: str
) -> None:
    with serve() as service:
        service.say(**BOB)
    text = voices_file.read_text("utf-8")
    if change == "label":
        voices_file.write_text(text.replace('"low"', '"high"'))
    elif change == "name":
        voices_file.write_text(text.replace("bob", "rob"))
    else:
        spark.script = replace(spark.script, checkpoint="two")

    with serve() as service:
        service.say(**BOB | {"voice": "rob" if change == "name" else "bob"})

    assert len(makers(spark)) == 2


def test_first_requests_at_once_make_one_person(spark: FakeTriton, serve: Serve) -> None:
    gate = Gate()
    spark.script = replace(
        spark.script, by_text=lambda said: [gate, *tones()] if said.gender else tones()
    )

    with serve() as service, ThreadPoolExecutor() as pool:
        answers = [pool.submit(service.say, **BOB) for _ in range(4)]
        service.wait_in_flight(len(answers))
        assert spark.seen.started.wait()
        gate.open()
        statuses = {answer.result().status_code for answer in answers}

    first, *others = spark.seen.requests
    assert statuses == {200}
    assert first.gender == "male"
    assert len(others) == 3
    for request in others:
        assert_bob(request)


def test_others_speak_as_soon_as_the_voice_is_known(spark: FakeTriton, serve: Serve) -> None:
    """Not only once the one who made it has had his say."""
    gate = Gate()
    first_chunk, *rest = tones()
    spark.script = replace(
        spark.script, by_text=lambda said: [first_chunk, gate, *rest] if said.gender else tones()
    )

    with serve() as service, ThreadPoolExecutor() as pool:
        first = pool.submit(service.say, **BOB)
        assert spark.seen.started.wait()
        assert service.say(**BOB).status_code == 200
        assert not first.done()
        gate.open()
        assert first.result().status_code == 200

    assert len(makers(spark)) == 1


def test_once_the_voice_is_known_nobody_waits_for_another(spark: FakeTriton, serve: Serve) -> None:
    gate = Gate()
    with serve() as service, ThreadPoolExecutor() as pool:
        service.say(**BOB)
        spark.script = replace(
            spark.script,
            by_text=lambda said: [gate, *tones()] if said.target_text == "Slow." else tones(),
        )
        slow = pool.submit(service.say, **BOB, input="Slow.")
        assert spark.seen.started.wait(2)
        assert service.say(**BOB).status_code == 200
        assert not slow.done()
        gate.open()
        assert slow.result().status_code == 200


def test_if_the_first_fails_before_the_voice_is_known_the_next_makes_it(
    spark: FakeTriton, serve: Serve
) -> None:
    gate = Gate()
    scripts = iter([[gate, Fail("boom")], tones(), tones()])
    spark.script = replace(spark.script, by_text=lambda _: next(scripts))

    with serve() as service, ThreadPoolExecutor() as pool:
        answers = [pool.submit(service.say, **BOB)]
        assert spark.seen.started.wait()
        answers += [pool.submit(service.say, **BOB) for _ in range(2)]
        service.wait_in_flight(len(answers))
        gate.open()
        statuses = [answer.result().status_code for answer in answers]
        assert_ended(service, spark, failed=1, finished=2)

    failed, maker, other = spark.seen.requests
    assert statuses == [502, 200, 200]
    assert failed.gender == maker.gender == "male"
    assert_bob(other, tokens=2)


def test_if_the_first_leaves_before_the_voice_is_known_the_next_makes_it(
    spark: FakeTriton, serve: Serve
) -> None:
    scripts = iter([[Gate()], tones()])
    spark.script = replace(spark.script, by_text=lambda _: next(scripts))

    with serve() as service, ThreadPoolExecutor() as pool:
        first = service.send(**BOB)
        assert spark.seen.started.wait()
        other = pool.submit(service.say, **BOB)
        service.wait_in_flight(2)
        first.close()
        assert other.result().status_code == 200
        assert_ended(service, spark, cancelled=1, finished=1)

    assert len(makers(spark)) == 2


def test_who_leaves_while_he_waits_for_the_voice_leaves_nothing_behind(
    spark: FakeTriton, serve: Serve
) -> None:
    gate = Gate()
    spark.script = replace(
        spark.script, by_text=lambda said: [gate, *tones()] if said.gender else tones()
    )

    with serve() as service, ThreadPoolExecutor() as pool:
        first = pool.submit(service.say, **BOB)
        assert spark.seen.started.wait()
        waiting = service.send(**BOB)
        service.wait_in_flight(2)
        waiting.close()
        assert service.log.ended.wait()
        gate.open()
        assert first.result().status_code == 200
        assert service.say(**BOB).status_code == 200
        assert_ended(service, spark, cancelled=1, finished=2)

    assert spark.seen.started.count == 2


def test_who_waits_for_the_voice_waits_until_his_deadline(spark: FakeTriton, serve: Serve) -> None:
    spark.script = replace(spark.script, steps=[Gate()])

    with serve(request_timeout_seconds=1.0) as service, ThreadPoolExecutor() as pool:
        answers = [pool.submit(service.say, **BOB) for _ in range(2)]
        statuses = [answer.result().status_code for answer in answers]
        assert_ended(service, spark, timed_out=2)

    assert statuses == [504, 504]


def test_a_model_that_does_not_say_what_it_made_is_misconfigured(
    spark: FakeTriton, serve: Serve
) -> None:
    spark.script = replace(spark.script, gives_made_voice=False)

    with serve() as service:
        answer = service.say(**BOB)
        assert_ended(service, spark, failed=1)

    assert answer.status_code == 500
    assert "'bob'" in answer.json()["error"]["message"]
    assert "global_tokens" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("extra_inputs", "lacking"),
    [
        ((), "no input gender or pitch or speed_label or global_tokens"),
        (("gender", "pitch", "speed_label"), "no input global_tokens"),
    ],
)
def test_a_model_that_cannot_make_voices_is_named_with_what_it_lacks(
    spark: FakeTriton, serve: Serve, extra_inputs: tuple[str, ...], lacking: str
) -> None:
    spark.script = replace(spark.script, is_spark=False, extra_inputs=extra_inputs)

    with serve() as service:
        answer = service.say(**BOB)

    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "misconfigured"
    assert lacking in answer.json()["error"]["message"]
    assert spark.seen.requests == []
