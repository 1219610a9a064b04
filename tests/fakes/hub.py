"""A Hugging Face Hub with one repository, which can break off, hang or refuse."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from typing_extensions import Self

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PATH = re.compile(
    r"/(?:api/models/)?(?P<name>[^/]+/[^/]+)/(?P<verb>revision|tree|resolve)/(?P<rest>.+)"
)


@dataclass
class FakeHub:
    """Serves `files` of `repository`; `script` says how the next transfers of a file go wrong.

    `script[path]` is a list of where each transfer stops, in bytes; the one of `hangs_in` waits
    there. `corrupt` arrives with other content, those of `claims` are said to be so large;
    `status` refuses all that is asked, each of `busy` one question for a file; with `token` nobody
    else is answered. `asked` records (method, path, first byte asked for).
    """

    files: dict[str, bytes]
    repository: str = "SparkAudio/Spark-TTS-0.5B"
    token: str | None = None
    status: int | None = None
    busy: list[int] = field(default_factory=list)
    script: dict[str, list[int]] = field(default_factory=dict)
    corrupt: str | None = None
    claims: dict[str, int] = field(default_factory=dict)
    hangs_in: str | None = None
    hanging: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    asked: list[tuple[str, str, int]] = field(default_factory=list)

    def __enter__(self) -> Self:
        hub = self

        class Handler(HubHandler):
            fake = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def transfers(self, path: str) -> list[int]:
        """Return the first byte of each GET of a file."""
        return [first for method, asked, first in self.asked if (method, asked) == ("GET", path)]


class HubHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeHub

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        found = PATH.fullmatch(unquote(urlsplit(self.path).path))
        if self.fake.status is not None:
            self._json({"error": "no"}, self.fake.status)
        elif found is None or found["name"] != self.fake.repository or not self._is_allowed():
            self._json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
        elif found["rest"].split("/")[0] not in ("main", COMMIT):
            self._json({"error": "Revision"}, 404, {"X-Error-Code": "RevisionNotFound"})
        elif found["verb"] == "revision":
            self._json(self._model_info())
        elif found["verb"] == "tree":
            self._json([self._entry(path) for path in self.fake.files])
        elif self.fake.busy:
            self._json({"error": "busy"}, self.fake.busy.pop(0))
        else:
            self._file(found["rest"].split("/", 1)[1])

    def _is_allowed(self) -> bool:
        token = self.fake.token
        return token is None or self.headers.get("Authorization") == f"Bearer {token}"

    def _model_info(self) -> dict[str, Any]:
        siblings = [
            {"rfilename": path, **{k: v for k, v in self._entry(path).items() if k != "path"}}
            for path in self.fake.files
        ]
        return {"id": self.fake.repository, "sha": COMMIT, "siblings": siblings}

    def _entry(self, path: str) -> dict[str, Any]:
        data = self.fake.files[path]
        entry: dict[str, Any] = {"type": "file", "path": path, "size": len(data), "oid": "0" * 40}
        entry["size"] = self.fake.claims.get(path, len(data))
        if path.endswith(".safetensors"):
            sha256 = hashlib.sha256(data).hexdigest()
            entry["lfs"] = {
                "oid": sha256,
                "sha256": sha256,
                "size": entry["size"],
                "pointerSize": 134,
            }
        return entry

    def _file(self, path: str) -> None:
        data = self.fake.files[path]
        if path == self.fake.corrupt:
            data = data[:-1] + b"?"
        asked = re.match(r"bytes=(\d+)-", self.headers.get("Range") or "")
        first = int(asked[1]) if asked else 0
        self.fake.asked.append((self.command, path, first))
        self.send_response(206 if asked else 200)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Accept-Ranges", "bytes")
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - first))
        self.end_headers()
        if self.command == "GET":
            self._send(path, data, first)

    def _send(self, path: str, data: bytes, first: int) -> None:
        stops = self.fake.script.get(path, [])
        stop = stops.pop(0) if stops else len(data)
        with suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(data[first:stop])
            self.wfile.flush()
            if path == self.fake.hangs_in:
                self.fake.hanging.set()
                self.fake.released.wait()
        if stop < len(data):
            self.close_connection = True

    def _json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
