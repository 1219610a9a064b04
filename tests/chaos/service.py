"""The gateway of chaos: a process whose Tritons a file names."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import psutil

from chaos.noise import MODEL, SENTENCE_CHARACTERS
from chaos.station import SECRET
from tritonserver.processes import Process, free_ports

if TYPE_CHECKING:
    from pathlib import Path

    from chaos.station import Station

DEADLINE_SECONDS = 20.0
STREAMS_EACH = 16
WELL_SECONDS = 90.0
SETTINGS = {
    "REQUEST_TIMEOUT_SECONDS": DEADLINE_SECONDS,
    "FIRST_AUDIO_TIMEOUT_SECONDS": 3.0,
    "GAP_TIMEOUT_SECONDS": 3.0,
    "CONNECT_TIMEOUT_SECONDS": 1.0,
    "PROBE_INTERVAL_SECONDS": 1.0,
    "PROBE_TIMEOUT_SECONDS": 1.0,
    "DISCOVERY_INTERVAL_SECONDS": 0.5,
    "MAX_CONCURRENT_REQUESTS": 64,
    "REPLICA_MAX_STREAMS": STREAMS_EACH,
    "FIRST_SEGMENT_CHARACTERS": SENTENCE_CHARACTERS,
    "SEGMENT_CHARACTERS": SENTENCE_CHARACTERS,
    "MODELS": MODEL,
    "TRITON_TLS": "private",
    "TRITON_SERVER_NAME": "triton.internal",
    "TRITON_METADATA": f"triton-grpc-protocol-speech={SECRET}",
    "CACHE_DIR": "",
}


class Gateway:
    """The service in front of these stations. Make it inside the running event loop."""

    def __init__(self, folder: Path, stations: list[Station]) -> None:
        port = free_ports().http
        self.url = f"http://127.0.0.1:{port}"
        self._file = folder / "tritons.json"
        self.write_addresses(stations)
        environment = {f"SPEECH_{name}": str(value) for name, value in SETTINGS.items()}
        environment |= {"SPEECH_TRITON_CA": str(folder / "ours" / "ca.pem"), "PATH": "/usr/bin"}
        command = (sys.executable, "-I", "-m", "gateway", "serve", "--port", str(port))
        where = ("--triton", f"file://{self._file}")
        self._process = Process(*command, *where, env=environment)
        self._session = aiohttp.ClientSession(self.url)

    def start(self) -> None:
        """Return once it listens."""
        self._process.wait_for("Uvicorn running")

    async def close(self) -> None:
        """End it."""
        await self._session.close()
        await asyncio.to_thread(self._process.stop)

    def log(self) -> str:
        """Return what it wrote."""
        return "\n".join(self._process.lines)

    def write_addresses(self, stations: list[Station]) -> None:
        """Name these where it looks."""
        entries = [{"id": s.name, "address": s.address} for s in stations]
        beside = self._file.with_suffix(".new")
        beside.write_text(json.dumps({"replica": entries}), "utf-8")
        beside.replace(self._file)

    async def wait_ready(self, stations: list[Station]) -> bool:
        """Return whether it takes all of them for ready, before long."""
        wanted = {(s.name, s.address, "ready") for s in stations}
        until = time.monotonic() + WELL_SECONDS
        while time.monotonic() < until:
            replicas = (await self._get("/v1/replicas"))["replicas"]
            if {(r["name"], r["address"], r["state"]) for r in replicas} == wanted:
                return True
            await asyncio.sleep(0.2)
        return False

    async def held(self) -> dict[str, float]:
        """Return how many files, threads and series of metrics it has, and its memory."""
        async with self._session.get("/metrics") as answer:
            lines = (await answer.text()).splitlines()
        process = psutil.Process(self._process.pid)
        return {
            "files": process.num_fds(),
            "threads": process.num_threads(),
            "series": sum(not line.startswith("#") for line in lines),
            "MB": round(process.memory_info().rss / 1e6),
        }

    async def _get(self, path: str) -> Any:
        async with self._session.get(path) as answer:
            return await answer.json()
