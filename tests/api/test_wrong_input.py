"""Whatever is wrong with a request: its status, OpenAI's body, and words that help."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from fakes.service import SAID, RunningService
from fakes.triton import FakeTriton
from gateway.api.limits import BodyLimit

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

PATH = "/v1/audio/speech"
JSON = {"content-type": "application/json"}
MISSING = object()


@pytest.fixture(scope="module")
def triton() -> Iterator[FakeTriton]:
    with FakeTriton() as fake:
        yield fake


@pytest.fixture(scope="module")
def service(triton: FakeTriton) -> Iterator[RunningService]:
    """Give one service for all: no wrong request may change what the next one gets."""
    with RunningService(triton) as running:
        yield running


def error_of(response: httpx.Response) -> dict[str, Any]:
    """Return the error of a body that has OpenAI's shape and nothing else."""
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    body = response.json()
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "param", "code"}
    error: dict[str, Any] = body["error"]
    return error


WRONG_FIELDS = [
    # id, field, value, code, words of the message
    ("empty input", "input", "", "invalid_value", ["at least 1 char"]),
    ("blank input", "input", " \n\t", "invalid_value", ["white space"]),
    ("zero-width input", "input", "\u200b\ufeff", "invalid_value", []),
    ("long input", "input", "x" * 4097, "string_above_max_length", ["4097", "4096"]),
    ("number as input", "input", 7, "invalid_value", ["valid string", "given: 7"]),
    ("null as input", "input", None, "invalid_value", ["valid string", "null"]),
    ("list as input", "input", ["a"], "invalid_value", ["valid string"]),
    ("no input", "input", MISSING, "missing_required_parameter", ["required"]),
    ("no model", "model", MISSING, "missing_required_parameter", ["required"]),
    ("no voice", "voice", MISSING, "missing_required_parameter", ["required"]),
    ("empty model", "model", "", "invalid_value", ["at least 1 char"]),
    ("unknown voice", "voice", "nobody", "voice_not_found", ["nobody", "heart", "fable"]),
    ("voice of 257 characters", "voice", "v" * 257, "invalid_value", ["256"]),
    ("empty voice", "voice", "", "voice_not_found", ["heart"]),
    ("list as voice", "voice", ["heart"], "invalid_value", ["heart"]),
    ("voice without id", "voice", {}, "invalid_value", ["{}"]),
    ("number as voice id", "voice", {"id": 3}, "invalid_value", []),
    ("unknown format", "response_format", "mp9", "invalid_value", ["mp9", "wav", "pcm"]),
    ("empty format", "response_format", "", "invalid_value", ["wav", "pcm"]),
    ("string as speed", "speed", "fast", "invalid_value", ["number", "fast"]),
    ("negative seed", "seed", -1, "invalid_value", ["-1", "0"]),
    ("seed beyond 64 bits", "seed", 2**64, "invalid_value", ["18446744073709551616"]),
    ("speed of zero", "speed", 0, "invalid_value", ["0.25"]),
    ("speed over 4", "speed", 4.1, "invalid_value", ["4"]),
    ("string as stream", "stream", "no", "invalid_value", ["boolean"]),
    ("unknown stream_format", "stream_format", "x", "invalid_value", ["audio", "sse"]),
    ("long instructions", "instructions", "x" * 4097, "invalid_value", ["4096"]),
]


@pytest.mark.parametrize(
    ("field", "value", "code", "words"),
    [pytest.param(*row[1:], id=row[0]) for row in WRONG_FIELDS],
)
def test_a_wrong_field_is_a_400_that_names_it(
    service: RunningService, field: str, value: object, code: str, words: list[str]
) -> None:
    body = SAID | {field: value}
    if value is MISSING:
        del body[field]

    response = service.client.post(PATH, json=body)

    error = error_of(response)
    assert response.status_code == 400
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", field, code)
    assert field in error["message"]
    assert not [word for word in words if word not in error["message"]]


def test_an_unknown_model_is_a_404_that_names_those_there_are(service: RunningService) -> None:
    response = service.say(model="tts-9")

    error = error_of(response)
    assert response.status_code == 404
    assert (error["param"], error["code"]) == ("model", "model_not_found")
    assert "tts-9" in error["message"]
    assert "hibari" in error["message"]


def test_null_for_what_is_not_required_is_as_if_it_were_not_there(
    service: RunningService,
) -> None:
    unset = ("response_format", "speed", "instructions", "stream_format", "seed", "stream", "foo")

    response = service.say(**dict.fromkeys(unset))

    assert response.status_code == 200
    assert response.headers["content-type"] == "audio/mpeg"
    assert "x-speech-ignored" not in response.headers


def test_exactly_the_longest_input_is_spoken(service: RunningService) -> None:
    response = service.say(input="x" * 4096)

    assert response.status_code == 200


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        pytest.param(b"not json", JSON, id="not JSON"),
        pytest.param(b"", JSON, id="nothing"),
        pytest.param(b"[]", JSON, id="an array"),
        pytest.param(b'"text"', JSON, id="a string"),
        pytest.param(b"null", JSON, id="null"),
        pytest.param(b'{"input": "\xff"}', JSON, id="not UTF-8"),
        pytest.param(b"[" * 100_000, JSON, id="nested too deep"),
        pytest.param(json.dumps(SAID).encode(), {}, id="no content-type"),
        pytest.param(json.dumps(SAID).encode(), {"content-type": "text/plain"}, id="text/plain"),
        pytest.param(
            b"input=Hello&voice=heart",
            {"content-type": "application/x-www-form-urlencoded"},
            id="a form",
        ),
    ],
)
def test_a_body_that_is_no_json_object_is_a_400(
    service: RunningService, content: bytes, headers: dict[str, str]
) -> None:
    response = service.client.post(PATH, content=content, headers=headers)

    error = error_of(response)
    assert response.status_code == 400
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_json")
    assert "JSON" in error["message"]


@pytest.mark.parametrize("field", ["input", "model", "voice", "response_format", "extra"])
def test_half_a_character_is_refused_or_ignored_but_never_breaks_the_service(
    service: RunningService, field: str
) -> None:
    # json.dumps writes the escape that JSON allows and UTF-8 does not.
    body = json.dumps(SAID | {field: "\ud800"}).encode()

    response = service.client.post(PATH, content=body, headers=JSON)

    assert response.status_code in (200, 400, 404)
    if response.status_code != 200:
        assert error_of(response)["type"] == "invalid_request_error"


def test_a_body_of_50_mb_is_a_413_that_names_the_limit(service: RunningService) -> None:
    body = json.dumps(SAID | {"input": "x" * 50_000_000}).encode()

    response = service.client.post(PATH, content=body, headers=JSON)

    error = error_of(response)
    assert response.status_code == 413
    assert error["code"] == "request_too_large"
    assert "1048576 bytes" in error["message"]
    assert "SPEECH_MAX_BODY_BYTES" in error["message"]


def test_a_chunked_body_without_a_length_is_limited_too(service: RunningService) -> None:
    parts = (b"x" * 100_000 for _ in range(20))

    response = service.client.post(PATH, content=parts, headers=JSON)

    assert response.status_code == 413
    assert error_of(response)["code"] == "request_too_large"


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        pytest.param("GET", "/v1/nothing", 404, "GET /v1/nothing", id="unknown URL"),
        pytest.param("POST", "/v1/audio/speeches", 404, "/v1/audio/speeches", id="typo"),
        pytest.param("GET", PATH, 405, "Method Not Allowed", id="wrong method"),
        pytest.param("DELETE", "/v1/models", 405, "Method Not Allowed", id="no such method"),
    ],
)
def test_a_wrong_address_has_the_same_body(
    service: RunningService, method: str, path: str, status: int, words: str
) -> None:
    response = service.client.request(method, path)

    error = error_of(response)
    assert response.status_code == status
    assert (error["type"], error["code"]) == ("invalid_request_error", "unknown_url")
    assert words in error["message"]


def test_a_wrong_method_is_told_the_right_one(service: RunningService) -> None:
    response = service.client.get(PATH)

    assert response.headers["allow"] == "POST"


def test_no_wrong_request_reaches_the_model(triton: FakeTriton, service: RunningService) -> None:
    before = triton.seen.started.count

    service.say(voice="nobody")
    service.say(input=" ")
    service.say(speed=5.0)

    assert triton.seen.started.count == before
    assert service.figures()["in_flight"] == 0


def test_a_body_that_never_arrives_is_a_408() -> None:
    """Straight through the middleware, with little patience."""
    sent: list[dict[str, Any]] = []

    async def run() -> None:
        async def receive() -> dict[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Any) -> None:
            sent.append(message)

        limit = BodyLimit(None, max_bytes=100, seconds=0.01)  # type: ignore[arg-type]
        await limit({"type": "http", "method": "POST"}, receive, send)

    asyncio.run(run())

    assert sent[0]["status"] == 408
    assert b"within 0.01 s" in sent[1]["body"]


def test_a_list_that_is_asked_for_wrongly_names_the_parameter(service: RunningService) -> None:
    error = error_of(service.client.get("/v1/audio/voices", params={"legacy": "maybe"}))

    assert error["param"] == "legacy"


def test_a_part_of_a_field_is_named_with_it(service: RunningService) -> None:
    error = error_of(service.say(text_options={"sanitise": False}))

    assert error["param"] == "text_options"
    assert "text_options.sanitise" in error["message"]
