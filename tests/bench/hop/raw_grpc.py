"""What the same calls cost without a gateway: gRPC's own asyncio client, 16 calls at once.

`python -m bench.hop.raw_grpc PORT CALLS` prints calls/s and CPU milliseconds for each.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

import grpc.aio
import uvloop
from tritonclient.grpc import service_pb2_grpc

from bench.hop.first_audio import first_chunk_seconds
from bench.hop.processes import SERVED

CLIENTS = 16


async def main(port: int, calls: int) -> None:
    """Call and print."""
    os.sched_setaffinity(0, SERVED)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)

        async def client(count: int) -> None:
            for _ in range(count):
                await first_chunk_seconds(stub)

        await asyncio.gather(*(client(3) for _ in range(CLIENTS)))
        cpu, started = time.process_time(), time.perf_counter()
        await asyncio.gather(*(client(calls // CLIENTS) for _ in range(CLIENTS)))
        done = calls // CLIENTS * CLIENTS
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        print(done / seconds, cpu / done * 1e3)


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2])))
