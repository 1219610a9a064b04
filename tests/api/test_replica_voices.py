"""Voices that are tokens, with several Tritons: the same voice whoever speaks."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from fakes.replicas import wait_ready
from fakes.service import RunningService, message_of
from fakes.tokenizer import FakeTokenizer
from fakes.triton import FakeTriton, Script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ANNA = {"model": "spark_tts", "voice": "anna"}
BOB = {"model": "spark_tts", "voice": "bob"}
BROKEN = (grpc.StatusCode.UNAVAILABLE, "Stub process 'audio_tokenizer_0' is not healthy.")


@pytest.fixture
def sparks() -> Iterator[tuple[FakeTriton, FakeTriton]]:
    with ExitStack() as stack:
        one, other = (
            stack.enter_context(FakeTriton(Script(voices=(), is_spark=True), models=("spark_tts",)))
            for _ in range(2)
        )
        yield one, other


def serve(sparks: tuple[FakeTriton, FakeTriton], voices_file: Path) -> RunningService:
    return RunningService(sparks, models="spark_tts", voices_file=voices_file)


def speak_on_both(service: RunningService, sparks: Any, said: dict[str, str]) -> list[Any]:
    """Ask until both have spoken; return what reached the models."""
    wait_ready(service, *sparks)
    while not all(spark.seen.requests for spark in sparks):
        assert service.say(**said).status_code == 200
    return [request for spark in sparks for request in spark.seen.requests]


def test_a_tokenizer_on_one_of_them_is_enough(
    sparks: tuple[FakeTriton, FakeTriton], voices_file: Path
) -> None:
    sparks[1].tokenizer = FakeTokenizer()

    with serve(sparks, voices_file) as service:
        spoken = speak_on_both(service, sparks, ANNA)

    assert len({tuple(request.global_tokens) for request in spoken}) == 1
    assert sparks[1].tokenizer.runs.count == 1


def test_another_tokenizer_takes_over_from_one_that_died(
    sparks: tuple[FakeTriton, FakeTriton], voices_file: Path
) -> None:
    for spark, status in zip(sparks, (BROKEN, None), strict=True):
        spark.tokenizer = FakeTokenizer(status=status)

    with serve(sparks, voices_file) as service:
        wait_ready(service, *sparks)
        assert service.say(**ANNA).status_code == 200


def test_where_all_have_died_it_is_said(
    sparks: tuple[FakeTriton, FakeTriton], voices_file: Path
) -> None:
    for spark in sparks:
        spark.tokenizer = FakeTokenizer(status=BROKEN)

    with serve(sparks, voices_file) as service:
        wait_ready(service, *sparks)
        answer = service.say(**ANNA)

    assert "could not tokenise" in message_of(answer, 503, "backend_unavailable")
    assert sum(spark.tokenizer.runs.count for spark in sparks if spark.tokenizer) == 2


def test_a_made_voice_is_made_once_for_all(
    sparks: tuple[FakeTriton, FakeTriton], voices_file: Path
) -> None:
    with serve(sparks, voices_file) as service:
        spoken = speak_on_both(service, sparks, BOB)

    made = [request for request in spoken if request.gender is not None]
    known = [request for request in spoken if request.gender is None]
    assert len(made) == 1
    assert known
    assert all(set(request.global_tokens) == {1} for request in known)
