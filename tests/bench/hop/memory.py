"""What an open stream costs in memory, and whether memory stays flat."""

from __future__ import annotations

import asyncio

from bench.hop.connection import Connection
from bench.hop.processes import gateway, triton
from bench.hop.throughput import load

OPEN = 200
WARM_STREAMS = 4
"""So that what is made once is there."""
WARM_REQUESTS = 2000


async def report(requests: int) -> None:
    """Print both; aims: 100 kB a stream, within 10 % after 20 000 requests."""
    await _report_open_streams()
    await _report_growth(requests)


async def _report_open_streams() -> None:
    with triton(pause_seconds=1.0, chunks=8) as port, gateway(port) as (process, http_port):
        connections = [await Connection.open(http_port) for _ in range(OPEN)]
        await asyncio.gather(*(connection.ask() for connection in connections[:WARM_STREAMS]))
        before_bytes = process.memory_info().rss
        asking = [asyncio.ensure_future(connection.ask()) for connection in connections]
        await asyncio.sleep(4.5)
        during_bytes = process.memory_info().rss
        await asyncio.gather(*asking)
        for connection in connections:
            connection.close()
    each = (during_bytes - before_bytes) / OPEN / 1e3
    print(f"memory: {each:.0f} kB for each of {OPEN} open streams")


async def _report_growth(requests: int) -> None:
    with triton() as port, gateway(port) as (process, http_port):
        await load(process, http_port, WARM_REQUESTS)
        warm_bytes = process.memory_info().rss
        await load(process, http_port, requests)
        rss_bytes = process.memory_info().rss
    print(
        f"memory: {warm_bytes / 1e6:.1f} MB after {WARM_REQUESTS} requests, "
        f"{rss_bytes / 1e6:.1f} MB after {requests} more ({rss_bytes / warm_bytes - 1:+.1%})"
    )
