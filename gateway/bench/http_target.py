"""An OpenAI speech server as a target."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

import aiohttp

from gateway.bench.load import Names, TargetError
from gateway.bench.options import DEFAULTS
from gateway.bench.requests import BenchError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from gateway.bench.requests import Take, Utterance

SHOWN_CHARACTERS = 300


class HttpTarget:
    """`POST /v1/audio/speech` at a base URL, over connections that are kept and reused.

    `fields` are further fields of the body. A recording to clone travels as `ref_audio` (a data
    URL) and `ref_text`, as vllm-omni and others take it. What the server lists is waited for as
    long as `timeout_seconds`.
    """

    def __init__(
        self,
        url: str,
        audio_format: str,
        fields: Mapping[str, Any],
        api_key: str = "",
        timeout_seconds: float = DEFAULTS["timeout"],
    ) -> None:
        self._url = url.rstrip("/").removesuffix("/v1")
        self._fields = {**fields, "response_format": audio_format}
        self._key = api_key
        self._timeout_seconds = timeout_seconds
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._session = aiohttp.ClientSession(
            headers=headers,
            # Everyone who asks gets a connection: a pool's queue would be measured as the server's.
            connector=aiohttp.TCPConnector(limit=0),
            # Of speech: Load alone decides when a listener gives up.
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )

    async def aclose(self) -> None:
        """See Target.aclose."""
        await self._session.close()

    async def prepare(self, utterances: Sequence[Utterance]) -> Names:
        """See Target.prepare; asks the server for what was not named."""
        if "model" not in self._fields:
            models = await self._list("/v1/models", "data")
            self._fields["model"] = models[0]["id"]
        model = self._fields["model"]
        has_own_voice = all(utterance.reference is not None for utterance in utterances)
        if "voice" not in self._fields and not has_own_voice:
            voices = await self._list("/v1/audio/voices", "voices")
            of_model = [voice["id"] for voice in voices if voice.get("model") == model]
            if not of_model:
                raise BenchError(f"the model {model!r} has no voice of its own; name one: --voice")
            self._fields["voice"] = of_model[0]
        return Names(model, self._fields.get("voice"))

    async def speak(self, utterance: Utterance, take: Take) -> AsyncGenerator[bytes, None]:
        """See Target.speak."""
        body = self._fields | {"input": utterance.text} | _reference(utterance)
        try:
            async with self._session.post(f"{self._url}/v1/audio/speech", json=body) as response:
                if response.status != 200:  # noqa: PLR2004
                    raise TargetError(f"HTTP {response.status}", self._told(await response.text()))
                if ignored := response.headers.get("x-speech-ignored"):
                    raise TargetError("fields ignored", f"the server does not use {ignored}")
                if rate := response.headers.get("x-sample-rate"):
                    take.sample_rate_hz = int(rate)
                async for piece in response.content.iter_any():
                    yield piece
        except aiohttp.ClientConnectorError as error:
            raise TargetError("no connection", str(error)) from error
        except aiohttp.ClientResponseError as error:
            raise TargetError("no HTTP", self._no_http()) from error
        except aiohttp.ClientError as error:
            raise TargetError("cut", f"{type(error).__name__}: {error}") from error

    def _told(self, text: str) -> str:
        """Return what a server says of an error; some repeat the key that they refuse."""
        return _message(text.replace(self._key, "***") if self._key else text)

    def _no_http(self) -> str:
        return f"{self._url} is no HTTP server (a Triton? then grpc://HOST:PORT is right)"

    async def _list(self, path: str, name: str) -> list[dict[str, Any]]:
        """Return what the server lists there under `name`, one at least; raises BenchError."""
        url = f"{self._url}{path}"
        patience = aiohttp.ClientTimeout(total=self._timeout_seconds)
        try:
            async with self._session.get(url, timeout=patience) as response:
                status, text = response.status, await response.text(errors="replace")
        except asyncio.TimeoutError as error:
            raise BenchError(
                f"{url} has not answered within {self._timeout_seconds:g} s (--timeout): check "
                "that a speech server runs there, or name --model and --voice"
            ) from error
        except aiohttp.ClientConnectorError as error:
            raise BenchError(f"{self._url} cannot be reached: {error}") from error
        except aiohttp.ClientResponseError as error:
            raise BenchError(self._no_http()) from error
        except aiohttp.ClientError as error:
            raise BenchError(f"{url} does not answer: {error or type(error).__name__}") from error
        if entries := _entries(text, name):
            return entries
        raise BenchError(
            f"{url} does not say which there are (HTTP {status}: {self._told(text)}); "
            "name --model and --voice"
        )


def _entries(text: str, name: str) -> list[dict[str, Any]]:
    try:
        listed = json.loads(text)[name]
    except (ValueError, KeyError, TypeError):
        return []
    entries = listed if isinstance(listed, list) else []
    return [one for one in entries if isinstance(one, dict) and isinstance(one.get("id"), str)]


def _reference(utterance: Utterance) -> dict[str, str]:
    if utterance.reference is None:
        return {}
    audio = base64.b64encode(utterance.reference).decode()
    # Servers find out the format from the bytes.
    return {"ref_audio": f"data:audio/wav;base64,{audio}", "ref_text": utterance.transcript}


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["error"]["message"])[:SHOWN_CHARACTERS]
    except (ValueError, KeyError, TypeError):
        return text[:SHOWN_CHARACTERS]
