"""What a scrape of /metrics costs with many Tritons: `make bench-scrape`.

Everything but the network: stubs answer at once, all in the same turn of the event loop, which is
the worst for those who wait for it. Figures are printed, never asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import statistics
import time
from typing import TYPE_CHECKING, Any

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.grpc import service_pb2

from gateway.backend.poller import StatisticsPoller
from gateway.backend.statistics import BATCH_STAGES, STAGES, Target
from gateway.telemetry.exposition import native_lines
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.triton_statistics import NATIVE_PREFIXES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BATCH_SIZES = (1, 2, 4, 8)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=20)
    parser.add_argument("--models", type=int, default=10, help="of each replica")
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    names = [f"model_{number}" for number in range(options.models)]
    metrics = Metrics(["hibari"], lambda: 0, lambda: 0)
    stub = Stub(names)
    replicas = [Target(f"10.0.0.{number}:8001", stub) for number in range(options.replicas)]
    rounds, pauses = asyncio.run(poll(replicas, metrics, options.rounds))
    text = metrics.exposition()
    scrapes = times_ms(metrics.exposition, options.rounds)
    families = list(text_string_to_metric_families(text.decode()))
    anew = times_ms(lambda: generate_latest(Families(families)), options.rounds)
    own_page = page(names)
    pages = times_ms(lambda: native_lines(own_page, NATIVE_PREFIXES, replica="a"), options.rounds)
    series = sum(len(family.samples) for family in families)
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {load:.1f}")
    print(f"{options.replicas} replicas x {options.models} models: {series} series, ", end="")
    print(f"{len(text)} bytes; milliseconds (p50 / largest):")
    print(f"  a scrape                            {spread(scrapes)}")
    print(f"  the same by generate_latest         {spread(anew)}")
    print(f"  asking all once, without network    {spread(rounds)}")
    print(f"  pauses of the event loop meanwhile  {spread(pauses)}")
    print(f"  reading one metrics page            {spread(pages)}")


async def poll(
    replicas: Sequence[Target], metrics: Metrics, rounds: int
) -> tuple[list[float], list[float]]:
    """Return how long each round took, and the longest pause of the event loop in each."""
    poller = StatisticsPoller(lambda: replicas, metrics.triton, 5.0)
    times, pauses = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        pause = asyncio.create_task(longest_pause(asking := asyncio.create_task(poller.poll())))
        await asking
        times.append((time.perf_counter() - started) * 1e3)
        pauses.append(await pause)
    await poller.aclose()
    return times, pauses


async def longest_pause(asking: asyncio.Task[None]) -> float:
    longest, last = 0.0, time.perf_counter()
    while not asking.done():
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest * 1e3


class Families:
    """What generate_latest takes for a registry."""

    def __init__(self, families: list[Any]) -> None:
        self._families = families

    def collect(self) -> list[Any]:
        return self._families


class Stub:
    """A Triton whose models have all run in four sizes of batches."""

    def __init__(self, names: list[str]) -> None:
        self._figures = service_pb2.ModelStatisticsResponse(model_stats=map(figures, names))
        self._index = service_pb2.RepositoryIndexResponse()
        for name in names:
            self._index.models.add(name=name, version="1", state="READY")

    async def ModelStatistics(self, _: Any, **__: Any) -> Any:  # noqa: N802  gRPC's name
        return self._figures

    async def RepositoryIndex(self, _: Any, **__: Any) -> Any:  # noqa: N802
        return self._index

    async def ServerReady(self, _: Any, **__: Any) -> Any:  # noqa: N802
        return service_pb2.ServerReadyResponse(ready=True)

    async def ServerMetadata(self, _: Any, **__: Any) -> Any:  # noqa: N802
        return service_pb2.ServerMetadataResponse(version="2.55.0")


def figures(name: str) -> Any:
    message = service_pb2.ModelStatistics(name=name, version="1", inference_count=123_456)
    message.execution_count, message.last_inference = 65_432, 1_700_000_000_123
    parts = [getattr(message.inference_stats, stage) for stage in STAGES]
    for size in BATCH_SIZES:
        batch = message.batch_stats.add(batch_size=size)
        parts += [getattr(batch, stage) for stage in BATCH_STAGES]
    for number, part in enumerate(parts):
        part.count, part.ns = 123_456, 1_234_567_891_234 + number
    return message


def page(models: list[str]) -> str:
    """Return a metrics page of two GPUs, with the figures of models that are left out."""
    lines = [f'nv_gpu_{at}{{gpu_uuid="GPU-{gpu}"}} 0.5' for at in range(6) for gpu in range(2)]
    lines += [
        f'nv_inference_{at}{{model="{name}",version="1"}} 123456'
        for at in range(11)
        for name in models
    ]
    return "\n".join([*lines, ""])


def times_ms(action: Callable[[], object], rounds: int) -> list[float]:
    """Return how long the action took each time."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        action()
        times.append((time.perf_counter() - started) * 1e3)
    return times


def spread(times: list[float]) -> str:
    return f"{statistics.median(times):6.2f} / {max(times):.2f}"


if __name__ == "__main__":
    main()
