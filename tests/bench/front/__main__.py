"""What Spark-TTS's front costs: `make bench-front`.

A real Triton runs the front as it is; the language model and the vocoder behind it take the time
of a GPU and compute nothing. Clients speak straight to Triton, one utterance after the other.
Nothing here is a test: figures are printed, not asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2_grpc

from bench.hop.processes import cpu_seconds, machine
from engine.fixture import write_checkpoint
from engine.render import model_source, render_model
from engine.site import Site
from engine.spark import spark_specs
from spark.server import SparkServer, infer_request, spoken
from tritonserver.processes import free_ports, metric

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
SOURCES = {
    "llm": HERE / "llm.py",
    "vocoder": HERE / "vocoder.py",
    "audio_tokenizer": TESTS / "tritonserver" / "stages" / "model.py",
}
RAMP_SECONDS = 3.0
"""Until clients that begin together have drifted apart, and all is warm."""


@dataclass
class Heard:
    """What all clients heard."""

    samples: int = 0
    utterances: int = 0
    first_seconds: list[float] = field(default_factory=list)
    chunks: int = 0
    late_chunks: int = 0
    longest_gap_seconds: float = 0.0


@dataclass
class Clients:
    """So many that speak at once, each `request` again and again."""

    stub: Any
    tokens: int
    step_ms: float
    heard: Heard = field(default_factory=Heard)
    names: Iterator[int] = field(default_factory=itertools.count)

    async def speak_on(self) -> None:
        """Speak until cancelled."""
        while True:
            await self.speak()

    async def speak(self) -> None:
        """Speak once, and note what was heard and when."""
        number = next(self.names)
        tensors = spoken(number, self.tokens, self.step_ms).to_tensors()
        call = self.stub.ModelStreamInfer()
        began_at, dry_at = time.monotonic(), 0.0
        await call.write(infer_request("spark_tts", tensors, str(number)))
        await call.done_writing()
        while (message := await call.read()) is not grpc.aio.EOF:
            if message.error_message:
                raise RuntimeError(message.error_message)
            outputs = message.infer_response.outputs
            if not outputs:
                continue
            now, samples = time.monotonic(), outputs[0].shape[0]
            if dry_at:
                self.heard.late_chunks += now > dry_at
                gap_seconds = max(self.heard.longest_gap_seconds, now - dry_at)
                self.heard.longest_gap_seconds = gap_seconds
            else:
                self.heard.first_seconds.append(now - began_at)
            dry_at = max(now, dry_at) + samples / 16_000
            self.heard.samples += samples
            self.heard.chunks += 1
        self.heard.utterances += 1


@dataclass(frozen=True)
class Counts:
    """What the processes have used and sent so far."""

    at: float
    cpu: dict[str, float]
    messages: float


class Bench:
    """Measures a server."""

    def __init__(self, server: SparkServer, options: argparse.Namespace) -> None:
        self._server = server
        self._options = options
        (triton,) = server.process.children("tritonserver")
        stubs = {Path(stub.cmdline()[1]).parents[1].name: stub for stub in server.stubs}
        self._processes = {"front": stubs["spark_tts"], "server": triton, "llm": stubs["llm"]}

    def counts(self) -> Counts:
        """Return the figures of now."""
        messages = metric(self._server.ports.metrics, "bench_llm_messages_total")
        cpu = {name: cpu_seconds(process) for name, process in self._processes.items()}
        return Counts(time.monotonic(), cpu, messages)

    async def measure(self, step_ms: float, count: int) -> str:
        """Have `count` clients speak, a token each `step_ms`; return a line of the table."""
        async with grpc.aio.insecure_channel(self._server.ports.triton) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            clients = Clients(stub, self._options.tokens, step_ms)
            tasks = [asyncio.create_task(clients.speak_on()) for _ in range(count)]
            await asyncio.wait(tasks, timeout=RAMP_SECONDS, return_when="FIRST_COMPLETED")
            before, clients.heard = self.counts(), Heard()
            seconds = self._options.seconds
            ended, _ = await asyncio.wait(tasks, timeout=seconds, return_when="FIRST_COMPLETED")
            heard, after = clients.heard, self.counts()
            for task in ended:
                task.result()  # They end by an error alone.
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        return f"| {step_ms:g} | {count} {line(heard, before, after)}"


def line(heard: Heard, before: Counts, after: Counts) -> str:
    """Return the figures of a line of the table."""
    seconds, speech = after.at - before.at, heard.samples / 16_000
    used = {name: after.cpu[name] - before.cpu[name] for name in after.cpu}
    if not heard.first_seconds:
        raise SystemExit(
            f"no utterance began within {seconds:.0f} s; --seconds has to be longer than --tokens "
            "times --step-ms, which one takes"
        )
    first_ms = np.percentile([1000 * first for first in heard.first_seconds], [50, 95])
    cells = [
        f"{speech / seconds:.0f}",
        f"{(after.messages - before.messages) / seconds:.0f}",
        f"{1000 * used['front'] / speech:.2f}",
        *(f"{used[name] / seconds:.2f}" for name in ("front", "server", "llm")),
        *(f"{first:.0f}" for first in first_ms),
        f"{100 * heard.late_chunks / heard.chunks:.1f}",
        f"{1000 * heard.longest_gap_seconds:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


NAMES = (
    *("step ms", "clients", "speech s/s", "messages/s", "front ms/s of speech", "front cores"),
    *("server cores", "llm cores", "first ms p50", "p95", "late chunks %", "longest gap ms"),
)
HEAD = f"| {' | '.join(NAMES)} |\n|{'---|' * len(NAMES)}"


def render(checkpoint: Path, repository: Path, address: str) -> None:
    """Write the repository: the front, and stages without weights."""
    for spec in spark_specs(Site(checkpoint, triton_address=address)):
        render_model(spec, SOURCES.get(spec.name, model_source(spec.name)), repository)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--seconds", type=float, default=15.0, help="of each line")
    parser.add_argument("--rounds", type=int, default=3, help="lines of each number of clients")
    parser.add_argument("--tokens", type=int, default=500, help="of an utterance; 50 are a second")
    parser.add_argument(
        "--step-ms", type=float, nargs="+", default=[4.0, 16.0], help="from token to token"
    )
    options = parser.parse_args()
    ports = free_ports()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint, repository = Path(folder) / "checkpoint", Path(folder) / "repository"
        write_checkpoint(checkpoint, "tiny", seed=1)
        render(checkpoint, repository, ports.triton)
        server = SparkServer(ports, "--repository", str(repository))
        try:
            bench = Bench(server, options)
            print(f"{machine()}\n{HEAD}")
            for _ in range(options.rounds):
                for step_ms, count in itertools.product(options.step_ms, options.clients):
                    print(asyncio.run(bench.measure(step_ms, count)), flush=True)
        finally:
            code = server.process.stop()
    print(f"exit code {code}, shared memory left: {server.regions()}")


if __name__ == "__main__":
    main()
