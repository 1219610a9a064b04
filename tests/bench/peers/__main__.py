"""Other projects' gateways and servers, and ours, on one workload: `make bench-peers`.

Each is asked for a second of silence or tone in ten pieces, PCM, over connections that stay
open. Gateways pass it on: ours from a fake Triton over gRPC, theirs from a bare FastAPI stub;
servers have a stub for their engine. All run at once, one core for whoever is asked and another
for the rest, and are asked in turn, round by round; the medians are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import statistics
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import uvloop

from bench.hop.connection import Connection
from bench.hop.flags import at_least, program
from bench.hop.processes import (
    OTHERS,
    SERVED,
    bare_stub,
    cpu_seconds,
    free_port,
    gateway,
    machine,
    running,
    triton,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    import psutil

STUBS = Path(__file__).with_name("stub_servers.py")
CLIENTS = 16
READY_SECONDS = 60.0
LITELLM = """\
model_list:
  - model_name: stub
    litellm_params:
      {{model: openai/stub, api_base: "http://127.0.0.1:{port}/v1", api_key: none}}
"""


@dataclass
class Peer:
    """Who is asked, with the fields that it wants, and what came of each round."""

    name: str
    kind: str
    process: psutil.Process
    port: int
    fields: dict[str, Any] = field(default_factory=dict)
    rounds: list[dict[str, float]] = field(default_factory=list)

    async def open(self) -> Connection:
        """Return a connection that asks as this peer wants it."""
        return await Connection.open(self.port, "pcm", **self.fields)

    def cpu_seconds(self) -> float:
        """Return what it has used so far, its children included."""
        return sum(map(cpu_seconds, [self.process, *self.process.children(recursive=True)]))


async def main() -> None:
    """Start all, ask them in turn, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    python = program("bench-peers")
    parser.add_argument("--python", type=python, required=True, help="Python with the peers in it")
    parser.add_argument("--rounds", type=at_least(1), default=5, help="of each (%(default)s)")
    parser.add_argument(
        "--requests", type=at_least(CLIENTS), default=320, help=f"{CLIENTS} at once (%(default)s)"
    )
    options = parser.parse_args()
    print(machine())
    os.sched_setaffinity(0, OTHERS)
    with ExitStack() as stack:
        peers = _start(stack, options.python)
        for peer in peers:
            await _ready(peer)
        for number in range(options.rounds + 1):
            for peer in peers:
                figures = await _ask(peer, options.requests)
                peer.rounds += [figures] if number else []  # The first warms up.
    _print(peers, options)


def _start(stack: ExitStack, python: Path) -> list[Peer]:
    peers = [Peer("bare FastAPI", "stub", *stack.enter_context(bare_stub()))]
    triton_port = stack.enter_context(triton())
    peers += [Peer("speech-gateway", "gateway", *stack.enter_context(gateway(triton_port, SERVED)))]
    for name, fields in (
        ("supertonic-server", {"voice": "F1"}),
        ("fastkokoro", {"model": "kokoro", "voice": "af_heart", "stream": True}),
    ):
        port = free_port()
        command = [str(python), str(STUBS), name, str(port)]
        process = stack.enter_context(running(command, port, SERVED))
        peers.append(Peer(name, "server", process, port, fields))
    worker_port = stack.enter_context(_bare_worker())
    peers.append(_start_router(stack, python.parent, worker_port))
    peers.append(_start_litellm(stack, python.parent, worker_port))
    return peers


def _start_router(stack: ExitStack, commands: Path, worker_port: int) -> Peer:
    port = free_port()
    command = [str(commands / "sgl-omni-router-py"), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--worker-urls", f"http://127.0.0.1:{worker_port}", "--model", "stub"]
    command += ["--health-check-interval-secs", "1", "--max-connections", "100"]
    process = stack.enter_context(running(command, port, SERVED))
    return Peer("sglang-omni router", "gateway", process, port, {"model": "stub"})


def _start_litellm(stack: ExitStack, commands: Path, worker_port: int) -> Peer:
    port = free_port()
    config = Path(stack.enter_context(TemporaryDirectory())) / "config.yaml"
    config.write_text(LITELLM.format(port=worker_port))
    command = [str(commands / "litellm"), "--config", str(config)]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    # It does not start without a key, and asks the network for prices unless told not to.
    key = f"sk-{secrets.token_hex(32)}"
    variables = {"LITELLM_MASTER_KEY": key, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    process = stack.enter_context(running(command, port, SERVED, variables))
    return Peer("LiteLLM proxy", "gateway", process, port, {"model": "stub", "key": key})


@contextmanager
def _bare_worker() -> Generator[int, None, None]:
    """Run the stub that the other gateways pass on, on the core of the clients; its port."""
    with bare_stub() as (process, port):
        process.cpu_affinity(sorted(OTHERS))
        yield port


async def _ready(peer: Peer) -> None:
    """Return once it speaks: a router wants to see its worker healthy first."""
    loop = asyncio.get_running_loop()
    until, reason = loop.time() + READY_SECONDS, ""
    while loop.time() < until:
        connection = await peer.open()
        try:
            await connection.ask()
        except RuntimeError as error:
            reason = str(error)
            await asyncio.sleep(0.5)
        else:
            return
        finally:
            connection.close()
    raise RuntimeError(f"{peer.name} does not speak: {reason}")


async def _ask(peer: Peer, requests: int) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    alone = await peer.open()
    first_ms = [(await alone.ask()).first_audio_seconds * 1e3 for _ in range(requests // 8)]
    alone.close()
    connections = [await peer.open() for _ in range(CLIENTS)]
    loaded_ms: list[float] = []

    async def client(connection: Connection) -> None:
        for _ in range(requests // CLIENTS):
            heard = await connection.ask()
            loaded_ms.append(heard.first_audio_seconds * 1e3)

    cpu, started = peer.cpu_seconds(), loop.time()
    await asyncio.gather(*map(client, connections))
    seconds, cpu = loop.time() - started, peer.cpu_seconds() - cpu
    for connection in connections:
        connection.close()
    return {
        "first": statistics.median(first_ms),
        "per_second": len(loaded_ms) / seconds,
        "loaded": statistics.median(loaded_ms),
        "loaded_p95": statistics.quantiles(loaded_ms, n=20)[18],
        "cpu": cpu / len(loaded_ms) * 1e3,
        "rss": peer.process.memory_info().rss / 1e6,
    }


def _print(peers: list[Peer], options: argparse.Namespace) -> None:
    print(f"{options.rounds} rounds of {options.requests} requests, medians\n")
    print("| | is a | first audio, alone | 16 at once | first audio p50 / p95 | CPU | RSS |")
    print("|---|---|---|---|---|---|---|")
    for peer in peers:
        figures = {
            name: statistics.median(of_round[name] for of_round in peer.rounds)
            for name in peer.rounds[0]
        }
        print(
            "| {name} | {kind} | {first:.1f} ms | {per_second:.0f}/s | {loaded:.0f} / "
            "{loaded_p95:.0f} ms | {cpu:.1f} ms | {rss:.0f} MB |".format(
                name=peer.name, kind=peer.kind, **figures
            )
        )


if __name__ == "__main__":
    sys.exit(uvloop.run(main()))
