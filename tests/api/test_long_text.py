"""Long texts and odd ones: spoken in full, in pieces that the model takes."""

from __future__ import annotations

import pytest

from fakes.decoding import decode
from fakes.service import RunningService
from fakes.triton import FakeTriton, Script, tone


def texts(triton: FakeTriton) -> list[str]:
    return [request.target_text for request in triton.seen.requests]


@pytest.mark.parametrize("name", ["mp3", "opus", "aac", "flac", "wav", "pcm"])
def test_4000_characters_are_spoken_in_full_in_every_format(
    triton: FakeTriton, service: RunningService, name: str
) -> None:
    text = "Now this is a sentence that says a little. " * 93

    response = service.say(input=text, response_format=name)

    joined = "".join("".join(texts(triton)).split())
    samples = 7200 * len(texts(triton)) + 3600 * (len(texts(triton)) - 1)
    assert joined == "".join(text.split())
    assert 0 <= len(decode(response.content, name)) - samples <= 2304


def test_100_000_characters_are_spoken_where_the_limit_permits(triton: FakeTriton) -> None:
    text = "Now this is a sentence that says a little. " * 2326
    triton.script = Script([tone(24)])

    with RunningService(triton, max_input_characters=len(text)) as service:
        response = service.say(input=text)

    assert response.status_code == 200
    assert "".join("".join(texts(triton)).split()) == "".join(text.split())


def test_no_segment_is_longer_than_the_model_takes(
    triton: FakeTriton, service: RunningService
) -> None:
    triton.script = Script(max_text_characters=50)
    service.learn()

    response = service.say(input="a word or two " * 100, text_options={"split": False})

    assert response.status_code == 200
    assert max(map(len, texts(triton))) <= 50
    assert "".join("".join(texts(triton)).split()) == "awordortwo" * 100


def test_a_text_without_any_full_stop_is_spoken(
    triton: FakeTriton, service: RunningService
) -> None:
    response = service.say(input="x" * 4096)

    assert response.status_code == 200
    assert "".join(texts(triton)) == "x" * 4096


@pytest.mark.parametrize(
    "text",
    [
        "Introduction " + "." * 100 + " 5",
        "Name: " + "_" * 120 + " Date: today",
        "." * 90 + " Hello there, my friend.",
        "Sum\n\n" + "=" * 400 + "\n\nall",
    ],
)
@pytest.mark.parametrize("sanitize", [True, False])
def test_rows_of_marks_never_reach_the_model_alone(
    triton: FakeTriton, service: RunningService, text: str, *, sanitize: bool
) -> None:
    response = service.say(input=text, text_options={"sanitize": sanitize})

    assert response.status_code == 200
    assert all(any(map(str.isalnum, said)) for said in texts(triton))
