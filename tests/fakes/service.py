"""The real service in this process: uvicorn in a thread of its own, on a free port."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import httpx
import uvicorn
from prometheus_client.parser import text_string_to_metric_families

from fakes.script import WAIT_SECONDS, Tally
from gateway.app import create_app
from gateway.http_parser import FirstHead
from gateway.settings import Settings
from gateway.telemetry.logging import TextFormatter

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from prometheus_client.samples import Sample

    from fakes.triton import FakeTriton

SAID = {"model": "hibari", "input": "Hello.", "voice": "heart", "response_format": "pcm"}
SPEECH = "/v1/audio/speech"
CRASH_LOGGERS = ("uvicorn.error", "asyncio")


class RunningService:
    """`create_app` behind uvicorn, as `speech-gateway serve` runs it.

    >>> with RunningService(triton, gap_timeout_seconds=0.1) as service:
    ...     service.client.post("/v1/audio/speech", json=SAID)
    """

    def __init__(self, triton: FakeTriton | Sequence[FakeTriton] | str, **settings: Any) -> None:
        if isinstance(triton, str):
            address = triton
        else:
            tritons = triton if isinstance(triton, Sequence) else (triton,)
            address = ",".join(one.address for one in tritons)
        # Nothing is left in the developer's own cache.
        settings = {"cache_dir": None} | settings
        self.settings = Settings(_env_file=None, triton_address=address, **settings)
        self.log = LogWatch()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(
            create_app(self.settings),
            log_config=None,
            http=FirstHead,
            loop="uvloop",
            timeout_graceful_shutdown=2,
        )
        self._server = _Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="service"
        )

    def __enter__(self) -> RunningService:  # noqa: PYI034  Self needs Python 3.11
        self.log.start()
        self._thread.start()
        assert self._server.is_up.wait(WAIT_SECONDS)
        self.client = httpx.Client(base_url=self.base_url, timeout=WAIT_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self._server.stop()
        self._thread.join(WAIT_SECONDS)
        self._socket.close()
        self.log.stop()
        assert not self._thread.is_alive()
        assert not self.log.crashes, self.log.crashes

    def learn(self) -> None:
        """Return once the service knows what its models declare now, not at its last probe."""
        self.client.get("/readyz")

    def replicas(self) -> dict[str, dict[str, Any]]:
        """Return what the service says of each Triton, by its name."""
        return {one["name"]: one for one in self.client.get("/v1/replicas").json()["replicas"]}

    def wait_state(self, name: str, state: str) -> None:
        """Return once this Triton is in this state."""
        until = time.monotonic() + WAIT_SECONDS
        while self.replicas().get(name, {"state": "gone"})["state"] != state:
            assert time.monotonic() < until, self.replicas()

    def say(self, **fields: Any) -> httpx.Response:
        """Ask for speech with the usual body, changed by `fields`."""
        return self.client.post(SPEECH, json=SAID | fields)

    def send(
        self, path: str = SPEECH, missing_bytes: int = 0, times: int = 1, **fields: Any
    ) -> socket.socket:
        """Ask for speech and return the connection, without waiting for an answer.

        The body is said to be longer than what is sent, by `missing_bytes`.
        """
        body = json.dumps(SAID | fields).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        length = f"content-length: {len(body) + missing_bytes}\r\n\r\n"
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_SECONDS)
        connection.sendall((f"{head}{length}".encode() + body) * times)
        return connection

    def samples(self) -> list[Sample]:
        """Return what Prometheus would read now."""
        families = text_string_to_metric_families(self.client.get("/metrics").text)
        return [sample for family in families for sample in family.samples]

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels; there must be some."""
        named = [s for s in self.samples() if s.name == name]
        values = [s.value for s in named if labels.items() <= s.labels.items()]
        assert values, f"no {name} with {labels}"
        return sum(values)

    def figures(self) -> dict[str, float]:
        """Return the outcomes that are not zero, and how many requests are in flight."""
        samples = self.samples()
        figures = {
            s.labels["outcome"]: s.value for s in samples if s.name == "speech_requests_total"
        }
        figures = {name: value for name, value in figures.items() if value}
        [in_flight] = [s.value for s in samples if s.name == "speech_requests_in_flight"]
        return figures | {"in_flight": in_flight}

    def wait_in_flight(self, count: int) -> None:
        """Return once so many requests have their permit."""
        until = time.monotonic() + WAIT_SECONDS
        while self.figures()["in_flight"] < count:
            assert time.monotonic() < until

    def in_loop(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the service's event loop and return what it returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._server.loop).result(WAIT_SECONDS)


def assert_ended(service: RunningService, triton: FakeTriton, **outcomes: int) -> None:
    """Assert that these outcomes are counted, and no permit and no stream at Triton is left."""
    assert service.log.ended.wait(sum(outcomes.values()))
    assert service.figures() == outcomes | {"in_flight": 0}
    assert triton.seen.ended.wait(triton.seen.started.count)


def message_of(response: httpx.Response, status: int, code: str) -> str:
    """Return an error's words, if it has this status and code."""
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (status, code)
    return str(error["message"])


class LogWatch(logging.Handler):
    """Follows the service's log: how many requests have ended, and whether anything crashed."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(TextFormatter())
        self.ended = Tally()
        self.lines: list[str] = []
        self.refusals: list[str] = []
        """Of requests that were no job, whose lines are there before their answers."""
        self.crashes: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line; a request's own line is the last thing that happens to it."""
        if record.exc_info or record.name == "asyncio":
            self.crashes.append(logging.Formatter().format(record))
        elif record.name == "speech":
            self.lines.append(self.format(record))
            self.ended.add()
        elif record.name == "speech.refusals":
            self.refusals.append(self.format(record))

    def start(self) -> None:
        """Listen."""
        for name in ("speech", *CRASH_LOGGERS):
            logging.getLogger(name).addHandler(self)
        logging.getLogger("speech").setLevel(logging.INFO)

    def stop(self) -> None:
        """Listen no more."""
        for name in ("speech", *CRASH_LOGGERS):
            logging.getLogger(name).removeHandler(self)
        logging.getLogger("speech").setLevel(logging.NOTSET)


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it is up and stops without waiting for a tick."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self._asked_to_stop = asyncio.Event()
        await super().startup(sockets)
        self.is_up.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._asked_to_stop.wait()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._asked_to_stop.set)
