"""A speech server whose every delay is known: the text of a request says what to answer.

The text is JSON: {"id": …, "steps": […]}. `GET /log` tells when each piece really left, on the
clock that all processes of a machine share, so that a timer's lateness is not taken for truth.
`python -m gateway.bench.scripted_server` serves on a free port, which it prints.
"""

from __future__ import annotations

import asyncio
import json
import math
import struct
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

RATE_HZ = 24_000
JSON_HEAD = (
    "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
)
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: audio/pcm\r\ntransfer-encoding: chunked\r\n\r\n"


def tone(seconds: float) -> bytes:
    """Return a 440 Hz sine, 16-bit; its first sample is silent."""
    count = round(seconds * RATE_HZ)
    values = (round(16_000 * math.sin(2 * math.pi * 440 * n / RATE_HZ)) for n in range(count))
    return struct.pack(f"<{count}h", *values)


def silence(seconds: float) -> bytes:
    """Return nothing to hear."""
    return bytes(2 * round(seconds * RATE_HZ))


MAKERS: dict[str, Callable[[Any], bytes]] = {
    "tone": tone,
    "silence": silence,
    "bytes": lambda text: text.encode(),
}


class ScriptedServer:
    """Serves HTTP/1.1, connections kept; `log` has for each id when pieces left, and the ending.

    Steps: ["wait", seconds], ["tone", seconds], ["silence", seconds], ["bytes", text],
    ["status", code] (instead of an answer), ["cut"], and ["freeze", after, seconds]: whoever comes
    in that time, counted from the first request with such a step, waits for its end.
    """

    def __init__(self) -> None:
        self.log: dict[str, dict[str, Any]] = {}
        self._sounds: dict[tuple[str, float], bytes] = {}
        self._first_freeze: float | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower():
                if head.startswith("post"):
                    length = int(head.split("content-length:")[1].split("\r\n")[0])
                    text = json.loads(await reader.readexactly(length))["input"]
                    await self._speak(json.loads(text), reader, writer)
                else:
                    self._tell(head.split(" ")[1], writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _tell(self, path: str, writer: asyncio.StreamWriter) -> None:
        answers: dict[str, Any] = {
            "/log": self.log,
            "/v1/models": {"data": [{"id": "scripted"}]},
            "/v1/audio/voices": {"voices": [{"id": "sine", "model": "scripted"}]},
        }
        _send_json(writer, 200, answers[path])

    async def _speak(
        self, script: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        entry = self.log[script["id"]] = {"came": time.monotonic(), "left": [], "ended": "gone"}
        for step, *values in script["steps"]:
            if step in ("wait", "freeze"):
                seconds = values[0] if step == "wait" else self._frozen_seconds(*values)
                if await _is_gone_within(reader, seconds):
                    raise ConnectionResetError
            elif step == "status":
                entry["ended"] = "status"
                _send_json(writer, values[0], {"error": {"message": "as scripted"}})
                return
            elif step == "cut":
                entry["ended"] = "cut"
                writer.transport.abort()
                raise ConnectionResetError
            else:
                sound = self._sound(step, values[0])
                head = b"" if entry["left"] else STREAM_HEAD
                entry["left"].append(time.monotonic())
                writer.write(head + f"{len(sound):x}\r\n".encode() + sound + b"\r\n")
        writer.write((b"" if entry["left"] else STREAM_HEAD) + b"0\r\n\r\n")
        entry["ended"] = "complete"

    def _frozen_seconds(self, after: float, seconds: float) -> float:
        now = time.monotonic()
        if self._first_freeze is None:
            self._first_freeze = now
        since = now - self._first_freeze - after
        return seconds - since if 0 <= since < seconds else 0.0

    def _sound(self, step: str, value: Any) -> bytes:
        if (step, value) not in self._sounds:
            self._sounds[step, value] = MAKERS[step](value)
        return self._sounds[step, value]


def _send_json(writer: asyncio.StreamWriter, status: int, answer: Any) -> None:
    body = json.dumps(answer).encode()
    writer.write(JSON_HEAD.format(status=status, length=len(body)).encode() + body)


async def _is_gone_within(reader: asyncio.StreamReader, seconds: float) -> bool:
    """Wait; return early, and True, if the client hangs up."""
    if seconds <= 0:
        return False
    try:
        # A client that waits for an answer sends nothing, so this ends with the connection only.
        await asyncio.wait_for(reader.read(1), seconds)
    except asyncio.TimeoutError:
        return False
    return True


async def main() -> None:
    """Serve until killed, or until whoever started it closes its input."""
    scripted = ScriptedServer()
    server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
