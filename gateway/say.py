"""`speech-gateway say`: speaks a text through a running service into a file."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import httpx

from gateway.audio.recording import RecordingError, open_recording

if TYPE_CHECKING:
    from pathlib import Path

BYTES_PER_SAMPLE = 2
TIMEOUT_SECONDS = 600


def say(url: str, text: str, output: Path, *, model: str | None, voice: str | None) -> int:
    """Write the speech to `output`, telling how much there is while it comes; 0 if all came."""
    started = time.monotonic()
    try:
        with httpx.Client(base_url=url, timeout=TIMEOUT_SECONDS) as client:
            body = {"input": text, "response_format": "pcm", **_names(client, model, voice)}
            with client.stream("POST", "/v1/audio/speech", json=body) as response:
                _raise_for_error(response)
                seconds = _record(response, output, started)
    except (httpx.HTTPError, RecordingError, _RefusedError) as error:
        output_state = "; the file holds what came before" if output.exists() else ""
        reason = f"{url}: {error or type(error).__name__}"
        print(f"error: {reason}{output_state}", file=sys.stderr)
        return 1
    took = time.monotonic() - started
    print(f"{output}: {seconds:.1f} s of speech in {took:.1f} s", file=sys.stderr)
    return 0


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


def _record(response: httpx.Response, output: Path, started: float) -> float:
    rate = int(response.headers["x-sample-rate"])
    samples, odd = 0, b""
    with open_recording(output, rate) as file:
        for piece in response.iter_bytes():
            data = odd + piece
            whole = len(data) - len(data) % BYTES_PER_SAMPLE
            file.buffer_write(data[:whole], "int16")
            odd = data[whole:]
            samples += whole // BYTES_PER_SAMPLE
            _progress(samples / rate, time.monotonic() - started)
    return samples / rate


def _progress(seconds: float, elapsed: float) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{seconds:6.1f} s of speech after {elapsed:5.1f} s\r")
        sys.stderr.flush()
