"""Under a path prefix, behind a proxy that takes it off or one that leaves it on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import openai
import pytest

from fakes.service import SAID, RunningService

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fakes.triton import FakeTriton

PREFIX = "/apps/tts"
KEY = "correct-horse"
WAYS = {"left on": lambda path: path, "taken off": lambda path: path.removeprefix(PREFIX)}
BOTH_WAYS = pytest.mark.parametrize("through", WAYS.values(), ids=WAYS)


@pytest.fixture
def prefixed(triton: FakeTriton) -> Iterator[RunningService]:
    """Give the service with a prefix and a key; `through` is what a proxy makes of a path."""
    with RunningService(triton, root_path=PREFIX, api_keys=KEY, open_without_key="docs") as running:
        yield running


@BOTH_WAYS
def test_it_speaks(prefixed: RunningService, through: Callable[[str], str]) -> None:
    url = prefixed.base_url + through(f"{PREFIX}/v1")

    with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0) as sdk:
        assert len(sdk.audio.speech.create(**SAID).content) == 14_400


@BOTH_WAYS
@pytest.mark.parametrize("page", ["/docs", "/redoc"])
def test_the_docs_find_their_schema_and_the_schema_the_service(
    prefixed: RunningService, through: Callable[[str], str], page: str
) -> None:
    html = prefixed.client.get(through(PREFIX + page)).text
    [named] = set(re.findall(r"[\"']([^\"']*openapi\.json)[\"']", html))
    schema = prefixed.client.get(through(named)).json()

    assert named == f"{PREFIX}/openapi.json"
    assert [server["url"] for server in schema["servers"]] == [PREFIX]
    assert "/v1/audio/speech" in schema["paths"]


@BOTH_WAYS
def test_a_key_is_asked_for_as_without_a_prefix(
    prefixed: RunningService, through: Callable[[str], str]
) -> None:
    paths = ["/livez", "/docs", "/metrics", "/v1/models", "/v1/nothing"]

    statuses = [prefixed.client.get(through(PREFIX + path)).status_code for path in paths]

    assert statuses == [200, 200, 401, 401, 401]


@BOTH_WAYS
def test_a_redirect_keeps_the_prefix(
    prefixed: RunningService, through: Callable[[str], str]
) -> None:
    answer = prefixed.client.get(
        through(f"{PREFIX}/v1/models/"), headers={"authorization": f"Bearer {KEY}"}
    )

    assert answer.status_code == 307
    assert answer.headers["location"] == f"{prefixed.base_url}{PREFIX}/v1/models"


@BOTH_WAYS
def test_a_wrong_address_is_told_as_the_caller_sees_it(
    prefixed: RunningService, through: Callable[[str], str]
) -> None:
    answer = prefixed.client.get(
        through(f"{PREFIX}/v1/nothing"), headers={"authorization": f"Bearer {KEY}"}
    )

    message = answer.json()["error"]["message"]
    assert answer.status_code == 404
    assert f"GET {PREFIX}/v1/nothing: Not Found; GET {PREFIX}/docs lists" in message


@pytest.mark.parametrize("path", ["/apps/ttsx/livez", "/apps/livez", "/apps/tts/apps/tts/livez"])
def test_another_prefix_is_none(prefixed: RunningService, path: str) -> None:
    assert prefixed.client.get(path).status_code == 401
