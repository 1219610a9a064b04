"""Clients that cannot be installed here: what they send, recorded, and what they need back.

Open WebUI and SillyTavern are applications, not packages; `wyoming_openai` needs Python 3.12.
"""

from __future__ import annotations

import io
import wave
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest

from fakes.decoding import decode

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def http(service: Any) -> Iterator[httpx.Client]:
    headers = {"authorization": "Bearer client-key"}
    with httpx.Client(base_url=service.base_url, headers=headers) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "of"), [("/audio/models", "models"), ("/models", "data"), ("/audio/voices", "voices")]
)
def test_open_webui_lists_without_a_key(http: httpx.Client, path: str, of: str) -> None:
    """0.12.4 reads `id` of each model, `id` and `name` of each voice, and sends no key."""
    del http.headers["authorization"]

    found = http.get(path).raise_for_status().json()[of]

    assert found
    assert all(entry["id"] for entry in found)
    assert of != "voices" or all(entry["name"] for entry in found)


def test_open_webui_speaks(service: Any, http: httpx.Client) -> None:
    """0.12.4 names no format, expects mp3 then, and goes by the content type."""
    body = {name: service.said[name] for name in ("input", "voice", "model")}

    response = http.post("/audio/speech", json=body)

    assert response.headers["content-type"] == "audio/mpeg"
    assert len(decode(response.content)) == service.decoded_samples


def test_sillytavern_speaks(service: Any, http: httpx.Client) -> None:
    """It always asks for mp3, sends the speed as a number of its slider, and may be a page."""
    body = service.said | {"speed": 1, "response_format": "mp3"}
    asked = {
        "origin": "http://127.0.0.1:8000",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }

    preflight = http.options("/audio/speech", headers=asked)
    response = http.post("/audio/speech", json=body, headers={"origin": asked["origin"]})

    assert preflight.is_success
    assert response.headers["access-control-allow-origin"] == "*"

    assert response.headers["content-type"] == "audio/mpeg"
    assert len(decode(response.content)) == service.decoded_samples


@pytest.mark.parametrize("path", ["/readyz", "/test"])
def test_wyoming_openai_takes_the_service_for_openai(http: httpx.Client, path: str) -> None:
    """0.8.0 probes below the base URL; an answer would be another server's sign."""
    assert http.get(path).status_code == 404


def test_wyoming_openai_does_not_take_the_service_for_speaches(http: httpx.Client) -> None:
    assert http.get("../../health").text != "OK"


def test_wyoming_openai_lists_the_voices_as_of_kokoro(http: httpx.Client) -> None:
    """0.8.0 with --tts-backend KOKORO_FASTAPI; before, it took names alone (`legacy`)."""
    voices = http.get("/audio/voices").raise_for_status().json()["voices"]
    names = http.get("/audio/voices", params={"legacy": "true"}).raise_for_status().json()["voices"]

    assert [voice["id"] for voice in voices] == names
    assert "alloy" in names


def test_wyoming_openai_lists_the_voices_as_of_speaches(service: Any, http: httpx.Client) -> None:
    """0.8.0 with --tts-backend SPEACHES asks for the model and reads its voices' names."""
    model = http.get(f"/models/{service.said['model']}").raise_for_status().json()

    assert "alloy" in [voice["name"] for voice in model["voices"]]


def test_wyoming_openai_reads_the_wav_from_its_first_chunk(service: Any) -> None:
    """0.8.0 opens the first 2048 bytes with `wave` and takes what follows as samples."""
    with (
        openai.OpenAI(base_url=service.base_url, api_key="client-key") as client,
        client.audio.speech.with_streaming_response.create(
            **service.said, response_format="wav"
        ) as response,
    ):
        first, *rest = response.iter_bytes(chunk_size=2048)

    header = io.BytesIO(first)
    with wave.open(header) as parsed:
        assert (parsed.getframerate(), parsed.getnchannels(), parsed.getsampwidth()) == (
            24_000,
            1,
            2,
        )
        offset = header.tell()
    assert len(first) + sum(map(len, rest)) - offset == 2 * service.samples
