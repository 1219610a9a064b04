"""API keys at the door: who comes in, what stays open, what a refusal says."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import openai
import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from fakes.service import SAID, RunningService, assert_ended
from fakes.triton import FakeTriton, Hang, Script, tone
from gateway.api.keys import RequireKey
from gateway.app import create_app
from gateway.keys import parse_keys
from gateway.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALICE, BOB = "correct-horse", "battery-staple"
KEYS = f"alice:{ALICE},bob:{BOB}"
SPEECH = "/v1/audio/speech"
PROBES = ["/livez", "/readyz", "/health"]
LISTS = [
    "/v1/models",
    "/v1/models/hibari",
    "/v1/audio/models",
    "/v1/audio/voices",
    "/v1/audio/voices/heart",
]
DOCS = ["/docs", "/redoc", "/openapi.json"]
METRICS = ["/metrics", "/v1/replicas"]


@pytest.fixture
def guarded(triton: FakeTriton) -> Iterator[RunningService]:
    """Give the service with two keys, and nothing open that can be closed."""
    with RunningService(triton, api_keys=KEYS, open_without_key="") as running:
        yield running


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (None, "no API key was given; send one in the header 'Authorization: Bearer YOUR_KEY'"),
        ("", "no API key was given"),
        ("Bearer", "cannot be read; it must be 'Authorization: Bearer YOUR_KEY'"),
        (ALICE, "cannot be read"),
        (f"Basic {ALICE}", "cannot be read"),
        (f"Bearer {ALICE}x", "incorrect API key"),
        (f"Bearer {ALICE[:-1]}", "incorrect API key"),
        (f"Bearer {ALICE} {BOB}", "incorrect API key"),
        (f"Bearer {ALICE.upper()}", "incorrect API key"),
        ("Bearer \xe4\xf6\xfc", "incorrect API key"),
    ],
)
def test_no_key_or_a_wrong_one_is_a_401_that_says_how(
    triton: FakeTriton, guarded: RunningService, header: str | None, words: str
) -> None:
    headers = [] if header is None else [(b"authorization", header.encode("latin-1"))]

    answer = guarded.client.post(SPEECH, json=SAID, headers=[*headers, (b"x-request-id", b"abc")])

    error = answer.json()["error"]
    assert answer.status_code == 401
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
    assert error["param"] is None
    assert words in error["message"]
    assert ALICE.lower() not in answer.text.lower()
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["x-request-id"] == "abc"
    assert triton.seen.started.count == 0


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
@pytest.mark.parametrize(("key", "name"), [(ALICE, "alice"), (BOB, "bob")])
def test_each_key_speaks_under_its_name(
    guarded: RunningService, scheme: str, key: str, name: str
) -> None:
    answer = guarded.client.post(SPEECH, json=SAID, headers={"authorization": f"{scheme} {key}"})

    assert answer.status_code == 200
    assert guarded.log.ended.wait(1)
    [line] = guarded.log.lines
    assert f" caller={name} " in line
    assert key not in line


@pytest.mark.parametrize("path", [*LISTS, *DOCS, *METRICS, *PROBES])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_key_works_on_every_route(guarded: RunningService, method: str, path: str) -> None:
    with_key = guarded.client.request(method, path, headers=bearer(ALICE))
    without = guarded.client.request(method, path)

    assert with_key.status_code in (200, 405)  # Not every list answers HEAD.
    assert without.status_code == (with_key.status_code if path in PROBES else 401)


@pytest.mark.parametrize("path", [SPEECH, "/audio/speech", f"{SPEECH}/preview"])
def test_a_key_works_wherever_a_text_is_sent(guarded: RunningService, path: str) -> None:
    assert guarded.client.post(path, json=SAID).status_code == 401
    assert guarded.client.post(path, json=SAID, headers=bearer(ALICE)).status_code == 200


@pytest.mark.parametrize("word", ["lists", "docs", "metrics"])
def test_what_is_open_is_a_setting(triton: FakeTriton, word: str) -> None:
    paths = {"lists": LISTS, "docs": DOCS, "metrics": METRICS}

    with RunningService(triton, api_keys=KEYS, open_without_key=word) as service:
        statuses = {
            path: service.client.get(path).status_code for paths in paths.values() for path in paths
        }

    opened = {path for path, status in statuses.items() if status == 200}
    assert opened == set(paths[word])
    assert {statuses[path] for path in statuses.keys() - opened} == {401}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", SPEECH),
        ("POST", "/audio/speech"),
        ("POST", "/v1/audio/voices"),
        ("DELETE", "/v1/models/hibari"),
        ("GET", "/v1/nothing"),
        ("GET", "/"),
        ("GET", "/metricsx"),
        ("GET", "//metrics"),
        ("OPTIONS", SPEECH),
    ],
)
def test_all_that_is_not_open_needs_a_key_even_if_it_is_not_there(
    triton: FakeTriton, method: str, path: str
) -> None:
    with RunningService(triton, api_keys=KEYS) as service:
        without = service.client.request(method, path)
        with_key = service.client.request(method, path, headers=bearer(BOB))

    assert without.status_code == 401
    assert with_key.status_code != 401


def test_a_wrong_key_does_not_close_what_is_open(triton: FakeTriton) -> None:
    with RunningService(triton, api_keys=KEYS) as service:
        answer = service.client.get("/v1/models", headers=bearer("wrong-key"))

    assert answer.status_code == 200


def test_without_keys_any_key_is_good_and_everyone_is_anonymous(service: RunningService) -> None:
    answer = service.client.post(SPEECH, json=SAID, headers=bearer("not-needed"))

    assert answer.status_code == 200
    assert service.log.ended.wait(1)
    assert " caller=anonymous " in service.log.lines[0]


def test_the_keys_of_a_file_are_as_good(triton: FakeTriton, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"bob {BOB}\n", encoding="utf-8")

    with RunningService(triton, api_keys=f"alice:{ALICE}", api_keys_file=file) as service:
        statuses = [
            service.client.post(SPEECH, json=SAID, headers=bearer(key)).status_code
            for key in (ALICE, BOB, "neither-of-them")
        ]

    assert statuses == [200, 200, 401]


def test_a_refusal_does_not_wait_for_the_body_and_keeps_the_connection(
    guarded: RunningService,
) -> None:
    head = f"POST {SPEECH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=10) as connection:
        connection.sendall(f"{head}content-length: 200000\r\n\r\n".encode())
        first = read_head(connection)
        connection.sendall(b"x" * 200_000)
        connection.sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
        second = read_head(connection)

    assert first.startswith(b"HTTP/1.1 401 ")
    assert second.startswith(b"HTTP/1.1 200 ")


def read_head(connection: socket.socket) -> bytes:
    """Read one answer and return it from its status line on."""
    data = b""
    while b"}" not in data:
        data += connection.recv(65536)
    return data


def test_openais_sdk_raises_its_own_error_with_our_words_and_does_not_ask_again(
    guarded: RunningService,
) -> None:
    posts: list[object] = []
    with openai.OpenAI(base_url=f"{guarded.base_url}/v1", api_key="wrong-key") as sdk:
        sdk._client.event_hooks["request"].append(posts.append)
        with pytest.raises(openai.AuthenticationError) as caught:
            sdk.audio.speech.create(**SAID)

    assert "incorrect API key provided; ask whoever runs this service" in str(caught.value)
    assert (caught.value.code, caught.value.status_code) == ("invalid_api_key", 401)
    assert caught.value.request_id
    assert len(posts) == 1


def test_openais_sdk_speaks_with_a_good_key(guarded: RunningService) -> None:
    with openai.OpenAI(base_url=f"{guarded.base_url}/v1", api_key=ALICE) as sdk:
        assert len(sdk.audio.speech.create(**SAID).content) == 14_400
        assert next(iter(sdk.models.list())).id == "hibari"


@pytest.mark.parametrize(
    "limit", [{"key_max_concurrent_requests": 1}, {"key_requests_per_minute": 1}]
)
def test_one_keys_limit_does_not_hurt_another(triton: FakeTriton, limit: dict[str, int]) -> None:
    triton.script = Script([tone(), Hang()])
    with RunningService(triton, api_keys=KEYS, **limit) as service:
        with service.client.stream("POST", SPEECH, json=SAID, headers=bearer(ALICE)):
            refused = service.client.post(SPEECH, json=SAID, headers=bearer(ALICE))
            with service.client.stream("POST", SPEECH, json=SAID, headers=bearer(BOB)) as other:
                status = other.status_code

        assert (refused.status_code, status) == (429, 200)
        assert "caller 'alice'" in refused.json()["error"]["message"]
        assert_ended(service, triton, rejected=1, cancelled=2)


def test_no_name_of_a_key_is_in_the_metrics(guarded: RunningService) -> None:
    guarded.client.post(SPEECH, json=SAID, headers=bearer(ALICE))
    assert guarded.log.ended.wait(1)

    assert "alice" not in guarded.client.get("/metrics", headers=bearer(BOB)).text


def test_a_websocket_is_refused_before_it_is_accepted() -> None:
    app = create_app(Settings(_env_file=None, api_keys=KEYS))
    with TestClient(app) as client:
        with (
            pytest.raises(WebSocketDisconnect) as refused,
            client.websocket_connect("/v1/realtime"),
        ):
            pass
        with (
            pytest.raises(WebSocketDisconnect) as unknown,
            client.websocket_connect("/v1/realtime", headers=bearer(ALICE)),
        ):
            pass

    assert getattr(refused.value, "status_code", None) == 401
    assert getattr(unknown.value, "status_code", None) != 401


def test_a_websocket_that_cannot_be_answered_is_closed_before_it_is_accepted() -> None:
    sent: list[object] = []

    async def never(*_: object) -> None:
        raise AssertionError("the application was reached")

    async def send(message: object) -> None:
        sent.append(message)

    middleware = RequireKey(never, parse_keys(KEYS), ("lists", "docs", "metrics"))
    scope = {"type": "websocket", "path": "/v1/models", "headers": []}
    asyncio.run(middleware(scope, never, send))

    assert sent == [{"type": "websocket.close"}]


@pytest.mark.parametrize(("keys", "has_button"), [("", False), (KEYS, True)])
def test_the_page_of_the_docs_can_send_a_key_where_one_is_needed(
    keys: str, *, has_button: bool
) -> None:
    schema = create_app(Settings(_env_file=None, api_keys=keys)).openapi()

    operation = schema["paths"][SPEECH]["post"]
    assert ("security" in operation) is has_button
    assert "401" in operation["responses"]
