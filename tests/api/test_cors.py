"""Pages in a browser: which may use the service, and what they can read of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest
from starlette.testclient import TestClient

from fakes.service import SAID, RunningService
from fakes.triton import FakeTriton, Hang, Script, tone
from gateway.app import EXPOSED_HEADERS, create_app
from gateway.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

SPEECH = "/v1/audio/speech"
PAGE = "https://app.example"
FROM_PAGE = {"origin": PAGE}
KEY = "correct-horse"
# What every page may read, and what is not for it (the Fetch standard; the server and proxies).
NEEDS_NO_EXPOSING = {"content-type", "cache-control", "content-length"}
NOT_FOR_PAGES = {"date", "server", "transfer-encoding", "connection", "vary", "x-accel-buffering"}


@pytest.fixture
def service(triton: FakeTriton) -> Iterator[RunningService]:
    """Give a service that one page and another may use."""
    with RunningService(triton, cors_origins=f"{PAGE},http://localhost:3000") as running:
        yield running


def assert_readable(answer: httpx.Response, origin: str = PAGE) -> None:
    """Assert that the page can read the answer and all of our headers, and sent no cookies."""
    assert answer.headers["access-control-allow-origin"] == origin
    assert "access-control-allow-credentials" not in answer.headers
    exposed = set(answer.headers["access-control-expose-headers"].split(", "))
    ours = {name for name in answer.headers if not name.startswith("access-control-")}
    assert ours - NEEDS_NO_EXPOSING - NOT_FOR_PAGES <= exposed


def preflight(service: RunningService, origin: str, *, method: str = "POST") -> httpx.Response:
    headers = {
        "origin": origin,
        "access-control-request-method": method,
        "access-control-request-headers": ", ".join(sdk_headers(service)),
    }
    return service.client.options(SPEECH, headers=headers)


def sdk_headers(service: RunningService) -> list[str]:
    """Return the names that OpenAI's SDK sends."""
    seen: list[httpx.Request] = []
    with openai.OpenAI(base_url=f"{service.base_url}/v1", api_key=KEY, max_retries=0) as sdk:
        sdk._client.event_hooks["request"].append(seen.append)
        sdk.models.with_raw_response.list()
    names = [name for name in seen[0].headers if name.startswith(("x-stainless", "auth"))]
    assert len(names) > 5
    return ["content-type", *names]


def test_a_page_may_ask_with_all_the_headers_of_openais_sdk(service: RunningService) -> None:
    answer = preflight(service, PAGE)

    allowed = answer.headers["access-control-allow-headers"].split(", ")
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert {"authorization", "content-type", "x-stainless-retry-count"} <= set(allowed)
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("origin", ["https://evil.example", f"{PAGE}.evil.example", "null"])
def test_another_page_may_not(service: RunningService, origin: str) -> None:
    asked = preflight(service, origin)
    spoken = service.client.post(SPEECH, json=SAID, headers={"origin": origin})

    assert asked.status_code == 400
    assert "access-control-allow-origin" not in asked.headers
    assert "access-control-allow-origin" not in spoken.headers


def test_every_page_may_with_a_star_but_without_its_cookies(triton: FakeTriton) -> None:
    with RunningService(triton, cors_origins="*") as service:
        asked = preflight(service, "https://any.example")
        spoken = service.client.post(
            SPEECH, json=SAID, headers={"origin": "https://any.example", "cookie": "a=b"}
        )

    assert asked.headers["access-control-allow-origin"] == "*"
    assert spoken.status_code == 200
    assert_readable(spoken, "*")


def test_without_the_setting_no_page_may(triton: FakeTriton) -> None:
    with RunningService(triton) as service:
        asked = preflight(service, PAGE)
        spoken = service.client.post(SPEECH, json=SAID, headers=FROM_PAGE)

    assert asked.status_code == 405
    assert not [name for name in spoken.headers if name.startswith("access-control-")]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"extra": 1}, 200),
        ({"stream_format": "sse"}, 200),
        ({"speed": 9}, 400),
        ({"model": "tts-9"}, 404),
        ({"input": "x" * 2_000_000}, 413),
    ],
)
def test_a_page_can_read_every_answer(
    service: RunningService, fields: dict[str, Any], status: int
) -> None:
    answer = service.client.post(SPEECH, json=SAID | fields, headers=FROM_PAGE)

    assert answer.status_code == status
    assert_readable(answer)


def test_a_page_can_read_that_the_address_is_wrong(service: RunningService) -> None:
    answer = service.client.get("/v1/nothing", headers=FROM_PAGE)

    assert answer.status_code == 404
    assert_readable(answer)


def test_a_page_can_read_that_triton_is_gone(triton: FakeTriton, service: RunningService) -> None:
    triton.stop()

    answer = service.client.post(SPEECH, json=SAID, headers=FROM_PAGE)

    assert answer.status_code == 503
    assert answer.headers["retry-after-ms"]
    assert_readable(answer)


def test_a_page_can_read_that_its_key_is_wrong_and_asks_first_without_one(
    triton: FakeTriton,
) -> None:
    with RunningService(triton, cors_origins=PAGE, api_keys=KEY) as service:
        asked = preflight(service, PAGE)
        answer = service.client.post(SPEECH, json=SAID, headers=FROM_PAGE)

    assert asked.status_code == 200
    assert answer.status_code == 401
    assert_readable(answer)


def test_a_page_can_read_when_to_come_back(triton: FakeTriton) -> None:
    triton.script = Script([tone(), Hang()])
    limits = {"max_concurrent_requests": 1, "max_waiting_requests": 0}

    with (
        RunningService(triton, cors_origins=PAGE, **limits) as service,
        service.client.stream("POST", SPEECH, json=SAID),
    ):
        answer = service.client.post(SPEECH, json=SAID, headers=FROM_PAGE)

    assert answer.status_code == 429
    assert_readable(answer)


def test_a_page_can_read_an_error_of_our_own() -> None:
    class Broken:
        async def voices(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("a bug")

    app = create_app(Settings(_env_file=None, cors_origins=PAGE), Broken())
    with TestClient(app, raise_server_exceptions=False) as client:
        answer = client.post(SPEECH, json=SAID, headers={"x-request-id": "abc", **FROM_PAGE})

    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert answer.headers["x-request-id"] == "abc"
    assert_readable(answer)


def test_the_error_that_says_not_to_try_again_can_be_read(
    triton: FakeTriton, service: RunningService
) -> None:
    triton.script = Script(is_speech_model=False)
    service.learn()

    answer = service.client.post(SPEECH, json=SAID, headers=FROM_PAGE)

    assert answer.headers["x-should-retry"] == "false"
    assert_readable(answer)


def test_what_is_exposed_is_written_in_lower_case_and_once() -> None:
    assert sorted({name.lower() for name in EXPOSED_HEADERS}) == list(EXPOSED_HEADERS)
