"""The OpenAPI page: what it promises is what the service does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fakes.service import RunningService
from fakes.triton import FakeTriton

if TYPE_CHECKING:
    from collections.abc import Iterator

STATUSES = ("400", "401", "404", "413", "429", "500", "502", "503", "504")
SPEECH = "/v1/audio/speech"


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    with FakeTriton() as triton, RunningService(triton) as running:
        yield running


@pytest.fixture(scope="module")
def page(service: RunningService) -> dict[str, Any]:
    answer: dict[str, Any] = service.client.get("/openapi.json").json()
    return answer


def test_every_audio_type_is_named_as_binary(page: dict[str, Any]) -> None:
    content = page["paths"][SPEECH]["post"]["responses"]["200"]["content"]

    audio = {"audio/mpeg", "audio/ogg", "audio/aac", "audio/flac", "audio/wav", "audio/pcm"}
    assert content.keys() == audio | {"text/event-stream"}
    assert all(content[kind]["schema"]["format"] == "binary" for kind in audio)


@pytest.mark.parametrize("path", [SPEECH, f"{SPEECH}/preview"])
def test_every_error_has_its_schema_and_an_example_of_it(page: dict[str, Any], path: str) -> None:
    responses = page["paths"][path]["post"]["responses"]

    errors = {status: answer for status, answer in responses.items() if status != "200"}
    assert errors.keys() == {*STATUSES, "default"}
    for status, answer in errors.items():
        content = answer["content"]["application/json"]
        assert content["schema"] == {"$ref": "#/components/schemas/ErrorBody"}
        # FastAPI leaves null out of examples, so `param` is not in each.
        if status != "default":
            assert content["example"]["error"].keys() >= {"message", "type", "code"}


def test_every_example_of_a_request_is_spoken(
    service: RunningService, page: dict[str, Any]
) -> None:
    body = page["paths"][SPEECH]["post"]["requestBody"]["content"]["application/json"]

    answers = {
        name: service.client.post(SPEECH, json=example["value"])
        for name, example in body["examples"].items()
    }

    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(
        body["examples"], 200
    )
    assert answers["mp3"].headers["content-type"] == "audio/mpeg"
    assert answers["events"].headers["content-type"].startswith("text/event-stream")


def test_every_field_is_explained(page: dict[str, Any]) -> None:
    schemas = page["components"]["schemas"]

    fields = schemas["SpeechBody"]["properties"] | schemas["TextOptions"]["properties"]
    unexplained = [n for n, field in fields.items() if not {"description", "$ref"} & field.keys()]
    assert unexplained == []
