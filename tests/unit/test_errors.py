"""The error tree and its one translation into OpenAI's body."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gateway import errors
from gateway.api.envelope import error_response
from gateway.errors import SpeechError

if TYPE_CHECKING:
    from collections.abc import Iterator


def tree(root: type[SpeechError]) -> Iterator[type[SpeechError]]:
    """Return a class and all that derive from it."""
    yield root
    for child in root.__subclasses__():
        yield from tree(child)


EVERY = pytest.mark.parametrize("error", list(tree(SpeechError)), ids=lambda error: error.__name__)
RETRYABLE = {429, 503}


@EVERY
def test_every_error_says_status_type_and_code(error: type[SpeechError]) -> None:
    made = error("words", detail="inside")

    assert 400 <= made.status < 600
    assert made.type == {429: "rate_limit_error"}.get(
        made.status, "invalid_request_error" if made.status < 500 else "server_error"
    )
    assert made.code.isidentifier()
    assert str(made) == made.message == "words"


@EVERY
def test_every_error_has_the_status_that_the_tree_shows(error: type[SpeechError]) -> None:
    lines = [line for line in (errors.__doc__ or "").splitlines() if f" {error.__name__} " in line]

    assert error is SpeechError or [str(error.status) in line for line in lines] == [True]


@EVERY
def test_every_error_leaves_as_openais_body_without_its_detail(error: type[SpeechError]) -> None:
    response = error_response(error("words", param="input", detail="inside"))

    body = json.loads(response.body)
    assert response.status_code == error.status
    assert response.media_type == "application/json"
    assert body == {
        "error": {"message": "words", "type": error.type, "param": "input", "code": error.code}
    }


@EVERY
def test_what_passes_soon_says_so_and_nothing_else_does(error: type[SpeechError]) -> None:
    headers = error_response(error("words")).headers

    expected = ("1", "1000") if error.status in RETRYABLE else (None, None)
    assert (headers.get("retry-after"), headers.get("retry-after-ms")) == expected


def test_an_overload_says_when_to_come_back_rounded_up() -> None:
    headers = error_response(errors.OverloadedError("x", retry_after_seconds=12.0004)).headers

    assert (headers["retry-after"], headers["retry-after-ms"]) == ("13", "12001")


def test_a_code_of_its_own_beats_the_class() -> None:
    assert errors.InvalidRequestError("x", code="voice_not_found").code == "voice_not_found"


def test_half_a_character_can_be_answered() -> None:
    response = error_response(errors.InvalidRequestError("given: \ud800"))

    assert json.loads(response.body)["error"]["message"] == "given: \ud800"
