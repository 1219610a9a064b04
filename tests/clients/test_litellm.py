"""LiteLLM's SDK with the service as an OpenAI provider."""

from __future__ import annotations

import asyncio
from typing import Any

import litellm
import openai
import pytest

from fakes.decoding import decode


def request(service: Any, **fields: Any) -> dict[str, Any]:
    """Return what LiteLLM is called with."""
    said = service.said | {"model": f"openai/{service.said['model']}"} | fields
    return {"api_base": service.base_url, "api_key": "client-key", "max_retries": 0} | said


def test_speech_returns_mp3(service: Any) -> None:
    speech = litellm.speech(**request(service))

    assert len(decode(speech.content)) == service.decoded_samples
    [heard] = service.heard()
    assert heard == {"text": service.said["input"], "voice": "heart"}


def test_aspeech_passes_format_and_speed(service: Any) -> None:
    speech = asyncio.run(litellm.aspeech(**request(service, response_format="pcm", speed=2.0)))

    assert len(speech.content) / 2 == pytest.approx(service.samples / 2, rel=0.01)


def test_a_mistake_is_openais_exception_with_the_services_words(service: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="'nobody'"):
        litellm.speech(**request(service, voice="nobody"))
