"""A client that costs as little as Python allows, and sees when each piece of audio came."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import cast

import httptools

from gateway.speech.playback import Player

WAV_HEADER_BYTES = 44
TEXT = "A sentence of an ordinary length for the measurement."
BYTES_PER_SECOND = {"wav": 48_000, "pcm": 48_000, "mp3": 8_000}


@dataclass
class Heard:
    """One answer: seconds on a clock finer than the loop's, and what a player had of it."""

    asked_at_seconds: float
    first_audio_at_seconds: float | None = None
    ended_at_seconds: float = 0.0
    body_bytes: int = 0
    status: int = 0
    player: Player = field(default_factory=Player)

    @property
    def first_audio_seconds(self) -> float:
        """Seconds from the request to the first byte of audio."""
        assert self.first_audio_at_seconds is not None
        return self.first_audio_at_seconds - self.asked_at_seconds


class Connection(asyncio.Protocol):
    """Asks for speech, again and again, over one connection."""

    def __init__(self, audio_format: str, key: str = "none", **fields: object) -> None:
        said = {"model": "hibari", "voice": "heart", "input": TEXT} | fields
        body = json.dumps(said | {"response_format": audio_format}).encode()
        head = "POST /v1/audio/speech HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
        head += f"authorization: Bearer {key}\r\ncontent-length: {len(body)}\r\n\r\n"
        self._request = head.encode() + body
        self._header_bytes = WAV_HEADER_BYTES if audio_format == "wav" else 0
        self._bytes_per_second = BYTES_PER_SECOND[audio_format]
        self._whole: asyncio.Future[Heard] | None = None

    @classmethod
    async def open(
        cls, port: int, audio_format: str = "wav", key: str = "none", **fields: object
    ) -> Connection:
        """Return a connection to a service on this machine, which asks with these fields."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: cls(audio_format, key, **fields), "127.0.0.1", port
        )
        return connection

    async def ask(self) -> Heard:
        """Return the answer once it is whole; raises RuntimeError if it is no speech."""
        self._parser = httptools.HttpResponseParser(self)
        self._heard = Heard(time.perf_counter())
        self._whole = asyncio.get_running_loop().create_future()
        self._transport.write(self._request)
        heard = await self._whole
        if heard.status != 200 or heard.first_audio_at_seconds is None:
            raise RuntimeError(f"status {heard.status}, {heard.body_bytes} bytes")
        return heard

    def close(self) -> None:
        """Hang up."""
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._whole is not None and not self._whole.done():
            self._whole.set_exception(RuntimeError(f"the connection broke: {exc}"))

    def on_headers_complete(self) -> None:
        self._heard.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        heard = self._heard
        heard.body_bytes += len(body)
        audio_bytes = heard.body_bytes - self._header_bytes
        if audio_bytes > 0:
            now_seconds = time.perf_counter()
            heard.first_audio_at_seconds = heard.first_audio_at_seconds or now_seconds
            heard.player.offered(now_seconds, audio_bytes / self._bytes_per_second)
            heard.player.taken(now_seconds)

    def on_message_complete(self) -> None:
        self._heard.ended_at_seconds = time.perf_counter()
        assert self._whole is not None
        self._whole.set_result(self._heard)
