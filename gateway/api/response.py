"""How packets leave: as the bytes of a file, or as server-sent events."""

from __future__ import annotations

import base64
import json
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from starlette.responses import Response, StreamingResponse

from gateway.api.disconnect import unless_disconnected
from gateway.api.envelope import error_body
from gateway.errors import SpeechError
from gateway.speech.deadline import Deadline

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from gateway.speech.service import SpeechStream

LAST_WORD_SECONDS = 1.0
PIECE_BYTES = 65_536
OUTPUT_TOKENS_A_SECOND = 50
"""Spark-TTS makes 50 semantic tokens for a second of speech; other models are counted alike."""


class SpeechResponse(StreamingResponse):
    """Sends a SpeechStream's packets and closes it in every ending.

    If the model breaks off, or the deadline passes while the listener does not take what is
    there, the body is left without its end: the server then cuts the connection, and no client
    can take the part for the whole.
    """

    def __init__(self, stream: SpeechStream, headers: dict[str, str]) -> None:
        self._packets = stream.packets()
        super().__init__(self._packets, headers=headers, media_type=stream.media_type)
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send until the end, or until the client has gone."""
        # Starlette's own way to wait for both costs a group of tasks.
        try:
            await unless_disconnected(self.stream_response(send), receive)
        finally:
            await self._stream.aclose()

    async def stream_response(self, send: Send) -> None:
        """Send the head, then packet by packet."""
        head = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **head})
        await self._end(send, await self._send_until_the_end(send))

    async def _send_until_the_end(self, send: Send) -> SpeechError | None:
        record = self._stream.record
        try:
            with record.failures():
                async with record.job.deadline.limit("the listener took too long"):
                    await self._send_packets(send)
        except SpeechError as error:
            return record.error or error
        return None

    async def _end(self, send: Send, error: SpeechError | None) -> None:
        if error is None:  # Otherwise the record has the reason; see the class.
            await send(_body(b"", more=False))

    async def _send_packets(self, send: Send) -> None:
        async with aclosing(self._packets) as packets:
            async for packet in packets:
                await send(_body(self._framed(packet), more=True))
                del packet

    def _framed(self, packet: bytes) -> bytes:
        return packet


class WholeSpeech(Response):
    """Sends audio that is whole and closes its stream in every ending.

    The permit is kept and the deadline counts until the listener has taken it: audio in memory
    is what costs here.
    """

    def __init__(self, audio: bytes, stream: SpeechStream, headers: dict[str, str]) -> None:
        super().__init__(audio, headers=headers, media_type=stream.media_type)
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send it, piece by piece: a server that is given all at once does not wait."""
        record, audio = self._stream.record, bytes(self.body)
        head = {"status": self.status_code, "headers": self.raw_headers}
        try:
            with suppress(SpeechError), record.failures():
                async with record.job.deadline.limit("the listener took too long"):
                    await send({"type": "http.response.start", **head})
                    record.sent()
                    for start in range(0, len(audio), PIECE_BYTES):
                        await send(_body(audio[start : start + PIECE_BYTES], more=True))
                    await send(_body(b"", more=False))
                record.outcome = "finished"
        finally:
            await self._stream.aclose()


class SpeechEvents(SpeechResponse):
    """Sends the packets as OpenAI's events: deltas whose audio joined is the file, then "done".

    If the model breaks off, the last event is an error instead, whose `error` is that of an error
    body, and the body has no end either: some clients skip events that they do not know.
    """

    def __init__(self, stream: SpeechStream, headers: dict[str, str]) -> None:
        super().__init__(stream, headers)
        self.headers["content-type"] = "text/event-stream; charset=utf-8"

    async def _end(self, send: Send, error: SpeechError | None) -> None:
        if error is None:
            last = {"type": "speech.audio.done", "usage": _usage(self._stream)}
        else:
            last = {"type": "speech.audio.error", **error_body(error)}
        with suppress(SpeechError):
            async with Deadline.after(LAST_WORD_SECONDS).limit("the listener took too long"):
                await send(_body(_event(last), more=True))
                await super()._end(send, error)

    def _framed(self, packet: bytes) -> bytes:
        audio = base64.b64encode(packet).decode()
        return _event({"type": "speech.audio.delta", "audio": audio})


def _event(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def _body(data: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


def _usage(stream: SpeechStream) -> dict[str, int]:
    """Count characters in, and OUTPUT_TOKENS_A_SECOND for each second of audio out."""
    record = stream.record
    tokens_in = len(record.job.text)
    tokens_out = round(record.audio_seconds * OUTPUT_TOKENS_A_SECOND)
    return {
        "input_tokens": tokens_in,
        "output_tokens": tokens_out,
        "total_tokens": tokens_in + tokens_out,
    }


RESPONSE_OF: dict[str, type[SpeechResponse]] = {"audio": SpeechResponse, "sse": SpeechEvents}
