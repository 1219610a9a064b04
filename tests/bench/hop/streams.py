"""How many listeners at once hear speech that is made in real time, without a gap."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from bench.hop.connection import Connection
from bench.hop.processes import CORES, cpu_seconds, gateway, triton

if TYPE_CHECKING:
    import psutil

SECONDS = 5.0
CHUNK_SECONDS = 0.1
STEPS = {"wav": (50, 100, 200, 300, 400, 500), "mp3": (25, 50, 100, 150, 200)}


async def report() -> None:
    """Find the most streams without an underrun; aims on two cores: wav 300, mp3 100."""
    os.sched_setaffinity(0, CORES)
    print(
        f"streams of {SECONDS:g} s in real time, 100 ms chunks, a player that starts 200 ms late;"
    )
    print("Triton, gateway and clients share all cores:")
    with triton(CHUNK_SECONDS, round(SECONDS / CHUNK_SECONDS)) as triton_port:
        for audio_format, steps in STEPS.items():
            with gateway(triton_port) as (process, port):
                await listen(process, port, audio_format, 10)
                for count in steps:
                    if not await _is_enough(process, port, audio_format, count):
                        break


async def _is_enough(process: psutil.Process, port: int, audio_format: str, count: int) -> bool:
    """Try three times: something else may have had the machine once."""
    for _ in range(3):
        underruns, stalled, cpu = await listen(process, port, audio_format, count)
        print(
            f"  {audio_format}, {count:3} streams: {underruns} underruns, {stalled:.2f} s of "
            f"silence, gateway CPU {cpu:.0%} of a core"
        )
        if underruns == 0:
            return True
    return False


async def listen(
    process: psutil.Process, port: int, audio_format: str, count: int
) -> tuple[int, float, float]:
    """Return underruns, their seconds, and the cores that the process used."""
    connections = [await Connection.open(port, audio_format) for _ in range(count)]
    loop = asyncio.get_running_loop()

    async def listener(index: int, connection: Connection) -> tuple[int, float]:
        await asyncio.sleep(index / count)  # Not all in the same moment.
        heard = await connection.ask()
        return heard.player.underruns, heard.player.underrun_seconds

    cpu, started = cpu_seconds(process), loop.time()
    results = await asyncio.gather(*map(listener, range(count), connections))
    cpu = (cpu_seconds(process) - cpu) / (loop.time() - started)
    for connection in connections:
        connection.close()
    return sum(u for u, _ in results), sum(s for _, s in results), cpu
