"""`speech-gateway say`: speaks a text through a running service into a file."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import httpx

from gateway.audio.recording import Recording, RecordingError

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_SECONDS = 600
PCM_RATE_HZ = 24_000


def say(
    url: str,
    text: str,
    output: Path,
    *,
    model: str | None = None,
    voice: str | None = None,
    api_key: str = "",
) -> int:
    """Write the speech to `output`, telling how much there is while it comes; 0 if all came."""
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    started_seconds = time.monotonic()
    recording = None
    try:
        body = {"input": _sendable(text), "response_format": "pcm"}
        with httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_SECONDS) as client:
            body |= _names(client, model, voice)
            with client.stream("POST", "/v1/audio/speech", json=body) as response:
                _raise_for_error(response)
                rate_hz = int(response.headers.get("x-sample-rate", PCM_RATE_HZ))
                recording = Recording(output, rate_hz)
                with closing(recording):
                    for piece in response.iter_bytes():
                        recording.write(piece)
                        _progress(recording.seconds, time.monotonic() - started_seconds)
    except (httpx.HTTPError, RecordingError, _RefusedError) as error:
        where = f"{url}: " if isinstance(error, httpx.HTTPError) else ""
        kept = "" if recording is None else f"; {output} holds what came before"
        print(f"error: {where}{error or type(error).__name__}{kept}", file=sys.stderr)
        return 1
    took = time.monotonic() - started_seconds
    print(f"{output}: {recording.seconds:.1f} s of speech in {took:.1f} s", file=sys.stderr)
    return 0


def _sendable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _RefusedError("the text is not in the terminal's encoding; UTF-8 is") from error
    return text


class _RefusedError(Exception):
    """The service answered with an error; the message is its own."""


def _names(client: httpx.Client, model: str | None, voice: str | None) -> dict[str, str]:
    if model is None:
        model = _json(client.get("/v1/models"))["data"][0]["id"]
    if voice is None:
        voices = _json(client.get("/v1/audio/voices"))["voices"]
        voice = next((v["id"] for v in voices if v["model"] == model), "default")
    return {"model": model, "voice": voice}


def _json(response: httpx.Response) -> Any:
    _raise_for_error(response)
    return response.json()


def _raise_for_error(response: httpx.Response) -> None:
    if response.is_success:
        return
    response.read()
    try:
        message = response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = response.text[:500]
    raise _RefusedError(f"{response.status_code}: {message}")


def _progress(seconds: float, elapsed: float) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{seconds:6.1f} s of speech after {elapsed:5.1f} s\r")
        sys.stderr.flush()
