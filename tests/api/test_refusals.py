"""Requests that are answered with an error before they are a job: one line and one count each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fakes.service import SAID, RunningService
from fakes.triton import FakeTriton, Script, tone

if TYPE_CHECKING:
    from collections.abc import Iterator

SPEECH = "/v1/audio/speech"
JSON = {"content-type": "application/json"}


@pytest.fixture
def service(triton: FakeTriton) -> Iterator[RunningService]:
    """Give a service that knows alice's key and takes small bodies, whose client has that key."""
    keys = {"api_keys": "alice:correct-horse", "open_without_key": ""}
    with RunningService(triton, max_body_bytes=2000, **keys) as running:
        running.client.headers["authorization"] = "Bearer correct-horse"
        running.client.headers["x-request-id"] = "abc"
        yield running


def errors(service: RunningService) -> dict[tuple[str, str], float]:
    """Return the errors that are counted, by model and code."""
    return {
        (s.labels["model"], s.labels["code"]): s.value
        for s in service.samples()
        if s.name == "speech_errors_total" and s.value
    }


def body(**fields: Any) -> dict[str, Any]:
    return {"content": json.dumps(SAID | fields).encode(), "headers": JSON}


WRONG = [
    # id, path, what is sent, status, code, param
    ("no JSON", SPEECH, {"content": b"A secret.", "headers": JSON}, 400, "invalid_json", "none"),
    ("wrong field", SPEECH, body(speed="A secret."), 400, "invalid_value", "speed"),
    ("blank text", SPEECH, body(input=" "), 400, "invalid_value", "input"),
    ("unknown model", SPEECH, body(model="A secret."), 404, "model_not_found", "model"),
    ("preview", f"{SPEECH}/preview", body(voice="A secret."), 400, "voice_not_found", "voice"),
    ("too large", SPEECH, body(input="A secret." * 400), 413, "request_too_large", "none"),
    ("unknown URL", "/v1/audio/v1/audio/speech", body(), 404, "unknown_url", "none"),
]


@pytest.mark.parametrize(
    ("path", "sent", "status", "code", "param"),
    [pytest.param(*row[1:], id=row[0]) for row in WRONG],
)
def test_it_is_one_line_and_one_count(
    service: RunningService, path: str, sent: dict[str, Any], status: int, code: str, param: str
) -> None:
    assert service.client.post(path, **sent).status_code == status

    [line] = service.log.refusals
    assert line.split(" ", 2)[2] == (
        f"INFO speech.refused request_id=abc caller=alice method=POST path={path} "
        f"status={status} error={code} param={param} detail=none"
    )
    assert errors(service) == {("none", code): 1}


def test_no_key_is_one_line_of_its_own(service: RunningService) -> None:
    assert service.client.post(SPEECH, json=SAID, headers={"authorization": ""}).status_code == 401

    [line] = service.log.refusals
    assert " INFO speech.unauthenticated request_id=abc caller=none method=POST " in line
    assert errors(service) == {("none", "invalid_api_key"): 1}


@pytest.mark.parametrize("whole", [{}, {"stream": False}], ids=["streamed", "whole"])
def test_an_accepted_request_is_not_told_twice(
    triton: FakeTriton, service: RunningService, whole: dict[str, Any]
) -> None:
    assert service.say(voice="nobody", **whole).status_code == 400
    assert service.log.ended.wait(1)
    triton.script = Script([tone(), tone()])
    assert service.say(**whole).status_code == 200

    assert service.log.refusals == []
    assert errors(service) == {("hibari", "voice_not_found"): 1}


def test_a_list_that_triton_cannot_give_is_a_warning() -> None:
    with RunningService("127.0.0.1:1") as service:
        assert service.client.get("/v1/audio/voices").status_code == 503

        [line] = service.log.refusals
        assert " WARNING speech.refused " in line
        assert " path=/v1/audio/voices status=503 error=backend_unavailable " in line
        assert errors(service) == {("none", "backend_unavailable"): 1}


def test_a_path_is_cut_and_stays_in_its_line(service: RunningService) -> None:
    service.client.get(f"/%0aERROR%20x=%22{'a' * 100}")

    [line] = service.log.refusals
    assert line.isprintable()
    assert f' path="/\\nERROR x=\\"{"a" * 69}\\u2026" status=404 ' in line


@pytest.mark.parametrize("path", [SPEECH, f"{SPEECH}/preview"])
def test_one_who_leaves_while_he_sends_his_body_is_neither_a_refusal_nor_a_crash(
    triton: FakeTriton, path: str
) -> None:
    with RunningService(triton) as service:
        service.send(path, missing_bytes=100).close()
        assert service.say().status_code == 200  # By then it has been seen.

        assert (service.log.refusals, errors(service)) == ([], {})
