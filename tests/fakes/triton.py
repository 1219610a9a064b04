"""A Triton in this process: its real protocol, and a model that follows a Script.

`python tests/fakes/triton.py --port 8001` serves one until it is killed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from tritonclient.grpc import service_pb2_grpc

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from fakes.door import Door
from fakes.script import (
    NO_SAMPLES,
    Abort,
    Fail,
    Garbage,
    Gate,
    Hang,
    Misplaced,
    Pause,
    Script,
    Tally,
    tone,
    tones,
)
from fakes.servicer import Seen, Servicer

if TYPE_CHECKING:
    from types import TracebackType

    from fakes.statistics import FakeStatistics
    from fakes.tokenizer import FakeTokenizer

__all__ = [
    "NO_SAMPLES",
    "Abort",
    "Fail",
    "FakeTriton",
    "Garbage",
    "Gate",
    "Hang",
    "Misplaced",
    "Pause",
    "Script",
    "Seen",
    "Tally",
    "tone",
    "tones",
]

STEP_SECONDS = 10.0
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]

LOOPS_KEPT = 16
ENDED_LOOPS: deque[asyncio.AbstractEventLoop] = deque()
"""gRPC has one poller for all loops of a process: it may bring an ended fake's last events to
another's loop, which hands them on and fails where the fake's is closed."""


class FakeTriton:
    """A server in a thread of its own; `stop` and `start` keep its port.

    >>> with FakeTriton(Script([tone(), Hang()])) as triton: ...
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        port: int = 0,
        models: tuple[str, ...] = ("hibari",),
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self.port = port
        self.door = Door()
        self._credentials = credentials
        self._servicer = Servicer(models)
        self._servicer.script = script or Script()
        self._stop: Future[None] | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """host:port for SPEECH_TRITON_ADDRESS."""
        return f"127.0.0.1:{self.port}"

    @property
    def script(self) -> Script:
        """What the model does with the next requests; set it at any time."""
        return self._servicer.script

    @script.setter
    def script(self, script: Script) -> None:
        self._servicer.script = script

    @property
    def tokenizer(self) -> FakeTokenizer | None:
        """The model that tokenises recordings, None where there is none."""
        return self._servicer.tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: FakeTokenizer | None) -> None:
        self._servicer.tokenizer = tokenizer

    @property
    def statistics(self) -> FakeStatistics:
        """What it says of itself; change it at any time."""
        return self._servicer.statistics

    @property
    def seen(self) -> Seen:
        """What reached the model."""
        return self._servicer.seen

    def __enter__(self) -> FakeTriton:  # noqa: PYI034  Self needs Python 3.11
        self.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Serve; returns once the port is open."""
        bound: Future[int] = Future()
        self._stop = Future()
        self._thread = threading.Thread(
            target=self._run, args=(bound,), name="fake-triton", daemon=True
        )
        self._thread.start()
        self.port = bound.result(STEP_SECONDS)

    def stop(self) -> None:
        """Cut all streams and free the port. Idempotent."""
        if self._stop is None or self._thread is None:
            return
        self._stop.set_result(None)
        self._thread.join(STEP_SECONDS)
        self._stop = self._thread = None

    def _run(self, bound: Future[int]) -> None:
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(self._serve(bound))
            loop.run_until_complete(_cancelled(asyncio.all_tasks(loop)))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            ENDED_LOOPS.append(loop)
            if len(ENDED_LOOPS) > LOOPS_KEPT:
                ENDED_LOOPS.popleft().close()

    async def _serve(self, bound: Future[int]) -> None:
        try:
            server = grpc.aio.server(options=OPTIONS, interceptors=[self.door])
            service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(self._servicer, server)
            address = f"127.0.0.1:{self.port}"
            if self._credentials is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, self._credentials)
            await server.start()
        except BaseException as error:
            bound.set_exception(error)
            raise
        bound.set_result(port)
        await asyncio.wrap_future(self._stop)
        await server.stop(grace=None)


async def _cancelled(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    """Serve until killed, at a pace: for benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--samples", type=int, default=4800, help="samples of each chunk, 24 kHz")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds before each chunk")
    options = parser.parse_args()
    steps: list[Any] = []
    for chunk in tones(options.chunks, options.samples):
        steps += [Pause(options.pause), chunk] if options.pause else [chunk]
    with FakeTriton(Script(steps), port=options.port) as triton:
        print(f"fake Triton on {triton.address}", flush=True)  # noqa: T201
        threading.Event().wait()


if __name__ == "__main__":
    main()
