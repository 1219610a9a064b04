"""The npm packages `openai` and `ai`, on the Node of this machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fakes.decoding import decode


def node(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start one of this folder's scripts."""
    return subprocess.Popen(
        ["node", Path(__file__).with_name(script), *arguments],  # noqa: S607  whichever Node it is
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def speak(how: str, service: Any, **fields: Any) -> subprocess.Popen[bytes]:
    """Start a request of the `openai` package."""
    return node("openai_node.js", how, service.base_url, json.dumps(service.said | fields))


def test_openai_creates_the_whole_speech(service: Any) -> None:
    audio, errors = speak("create", service).communicate()

    assert errors == b""
    assert len(decode(audio)) == service.decoded_samples


def test_openai_streams_before_the_model_has_finished(service: Any) -> None:
    service.play("wait after the first")

    with speak("stream", service, response_format="pcm") as process:
        assert process.stdout is not None
        first = process.stdout.read(2 * service.first_samples)
        service.release()
        rest = process.stdout.read()

    assert len(first) == 2 * service.first_samples
    assert len(first + rest) == 2 * service.samples


@pytest.mark.parametrize(
    ("fields", "name", "status", "code", "words"),
    [
        ({"voice": "nobody"}, "BadRequestError", 400, "voice_not_found", "'nobody'"),
        ({"model": "tts-9"}, "NotFoundError", 404, "model_not_found", "'tts-9'"),
    ],
    ids=["voice", "model"],
)
def test_a_mistake_is_openais_api_error(
    service: Any, fields: Any, name: str, status: int, code: str, words: str
) -> None:
    audio, errors = speak("create", service, **fields).communicate()

    error = json.loads(errors)
    assert audio == b""
    assert (error["name"], error["status"], error["code"]) == (name, status, code)
    assert [error["param"]] == list(fields)
    assert words in error["message"]
    assert error["requestID"]


def test_the_vercel_ai_sdk_speaks(service: Any) -> None:
    process = node("vercel_ai.js", service.base_url, json.dumps(service.said))
    audio, said = process.communicate()

    assert process.returncode == 0, said.decode()
    assert json.loads(said) == {"mediaType": "audio/mpeg", "format": "mp3"}
    assert len(decode(audio)) == service.decoded_samples
    [heard] = service.heard()
    assert heard == {"text": service.said["input"], "voice": "heart"}
