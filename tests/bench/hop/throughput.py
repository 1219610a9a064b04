"""Concurrency 16 on one core: requests of a second of speech, against what cannot be saved."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from bench.hop.connection import Connection
from bench.hop.processes import OTHERS, bare_stub, cpu_seconds, gateway, triton
from bench.hop.processes import SERVED as CORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psutil

CLIENTS = 16


async def report(rounds: int, requests: int) -> None:
    """Measure in turn and print; aim: 600/s where the bare stub reaches 680."""
    os.sched_setaffinity(0, OTHERS)
    figures: dict[str, list[tuple[float, float]]] = {"bare": [], "gateway": [], "raw gRPC": []}
    with ExitStack() as stack:
        triton_port = stack.enter_context(triton())
        served = {
            "bare": stack.enter_context(bare_stub()),
            "gateway": stack.enter_context(gateway(triton_port, CORE)),
        }
        for number in range(rounds + 1):
            for name, (process, port) in served.items():
                figure = await load(process, port, requests)
                figures[name] += [figure] if number else []
            figure = await _raw_grpc(triton_port, requests)
            figures["raw gRPC"] += [figure] if number else []
    print(f"{CLIENTS} clients, {rounds} rounds of {requests} requests of ten 100 ms chunks, wav;")
    print("medians on one core: requests/s, CPU ms a request (1000 / that is the core's limit)")
    for name, values in figures.items():
        per_second, cpu = (statistics.median(column) for column in zip(*values, strict=True))
        print(f"  {name:10} {per_second:6.0f}/s {cpu:6.2f} ms {1000 / cpu:6.0f}/s")
    _print_ratios(figures)


def _print_ratios(figures: dict[str, list[tuple[float, float]]]) -> None:
    def ratio(of: Sequence[float], to: Sequence[float]) -> float:
        return statistics.median(a / b for a, b in zip(of, to, strict=True))

    columns = {name: list(zip(*values, strict=True)) for name, values in figures.items()}
    floor = [a + b for a, b in zip(columns["bare"][1], columns["raw gRPC"][1], strict=True)]
    print(f"  requests/s, gateway : bare {ratio(columns['gateway'][0], columns['bare'][0]):.2f}")
    print(f"  CPU, gateway : bare        {ratio(columns['gateway'][1], columns['bare'][1]):.2f}")
    print(f"  CPU, gateway : bare + gRPC {ratio(columns['gateway'][1], floor):.2f}")


async def load(process: psutil.Process, port: int, requests: int) -> tuple[float, float]:
    """Return requests/s and the process's CPU milliseconds for each."""
    connections = [await Connection.open(port) for _ in range(CLIENTS)]

    async def client(connection: Connection, count: int) -> None:
        for _ in range(count):
            await connection.ask()

    await asyncio.gather(*(client(connection, 3) for connection in connections))
    cpu, started = cpu_seconds(process), time.perf_counter()
    each = requests // CLIENTS
    await asyncio.gather(*(client(connection, each) for connection in connections))
    seconds = time.perf_counter() - started
    cpu = cpu_seconds(process) - cpu
    for connection in connections:
        connection.close()
    return each * CLIENTS / seconds, cpu / (each * CLIENTS) * 1e3


async def _raw_grpc(triton_port: int, requests: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "bench.hop.raw_grpc", str(triton_port), str(requests)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    per_second, cpu = map(float, out.split())
    return per_second, cpu
