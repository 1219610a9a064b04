"""What `speech-gateway bench` does: its flags become a plan, the plan a run, the run files."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway import local
from gateway.audio.decoding import FORMATS
from gateway.audio.riff import PcmLayout
from gateway.bench import terminal, workloads
from gateway.bench.calibration import calibrate
from gateway.bench.compare import compare
from gateway.bench.flags import GRPC, body_fields, check_used
from gateway.bench.http_target import HttpTarget
from gateway.bench.machine import describe
from gateway.bench.measure import Ear, measure
from gateway.bench.options import with_defaults
from gateway.bench.report import render
from gateway.bench.requests import BenchError, Habits
from gateway.bench.results import REPORT_FILE, RequestFiles, read_requests, write_summary
from gateway.bench.run import Plan, Run, Step
from gateway.bench.stages import StatisticsReader
from gateway.bench.triton_target import TritonTarget
from gateway.errors import SpeechError
from gateway.settings import load_settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Sequence
    from concurrent.futures import Executor

    from gateway.backend.statistics import ReplicaStatistics
    from gateway.bench.load import Target
    from gateway.bench.measure import Measured
    from gateway.bench.requests import Take, Utterance
    from gateway.bench.summary import Level
    from gateway.settings import Settings

REQUESTS_EACH = 4
FEWEST_REQUESTS = 20
OPEN_SECONDS = 60.0
NICENESS = 10
"""The process that decodes leaves the processor to what is measured."""
PCM_RATE_HZ = 24_000


def bench(settings: Settings, options: argparse.Namespace) -> int:
    """Run what the flags say; return 0, or 1 with the reason on standard error."""
    try:
        check_used(options)
        if options.calibrate:
            return terminal.show_checks(asyncio.run(calibrate()), os.getloadavg()[0])
        if options.target[:1] == ["compare"]:
            return _compare(options.target[1:])
        return _measure(settings, with_defaults(options))
    except (BenchError, SpeechError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _compare(folders: Sequence[str]) -> int:
    if len(folders) != 2:  # noqa: PLR2004
        raise BenchError(f"compare takes the folders of two runs; {len(folders)} are given")
    return terminal.show_comparison(compare(*map(Path, folders)))


def _measure(settings: Settings, options: argparse.Namespace) -> int:
    if len(options.target) > 1:
        raise BenchError(f"one TARGET at a time; there are {options.target}")
    target = options.target[0] if options.target else local.base_url(settings)
    plan = _plan(options)
    folder = options.output or Path(time.strftime("bench-%Y%m%d-%H%M%S"))
    about = _about(settings, options, target, plan)
    ear = _ear(options, target, folder)
    levels: list[Level] = []
    with closing(RequestFiles(folder)) as files, terminal.Bar(files.write) as bar, _pool() as pool:
        session = _Session(settings, options, target, about)
        try:
            asyncio.run(session.run(plan, ear, bar, pool, levels))
        except KeyboardInterrupt:
            about["interrupted"] = True
    if not levels:
        raise BenchError(f"no level was completed; {folder} holds the requests that were")
    write_summary(folder, about, levels)
    (folder / REPORT_FILE).write_text(
        render(about, levels, read_requests(folder)), encoding="utf-8"
    )
    terminal.show_levels(levels)
    print(f"{folder / REPORT_FILE}")
    if about["interrupted"]:
        print("broken off: only complete levels are in the report", file=sys.stderr)
        return 1
    return 0


class _Session:
    """What lives in the event loop: the target, and its names once they are known."""

    def __init__(
        self, settings: Settings, options: argparse.Namespace, target: str, about: dict[str, Any]
    ) -> None:
        self._settings = settings
        self._options = options
        self._target = target
        self._about = about

    async def run(
        self, plan: Plan, ear: Ear, bar: terminal.Bar, pool: Executor, levels: list[Level]
    ) -> None:
        """Run the plan; complete levels are in `levels` whatever happens."""
        async with AsyncExitStack() as stack:
            target = self._open()
            stack.push_async_callback(target.aclose)
            names = await target.prepare(plan.utterances)
            self._about |= names._asdict()
            ask = await self._ask(stack)
            run = Run(plan, target, partial(_in_pool, pool, ear), bar, ask)
            try:
                await run.levels_in_turn()
            finally:
                levels += run.levels

    def _open(self) -> Target:
        options = self._options
        if not self._target.startswith(GRPC):
            fields = body_fields(options)
            fields |= {n: v for n in ("model", "voice") if (v := getattr(options, n)) is not None}
            key = self._settings.client_api_key.get_secret_value()
            return HttpTarget(self._target, options.format, fields, key, options.timeout)
        if options.model is None:
            raise BenchError("a grpc:// target needs --model, the name of Triton's model")
        settings = load_settings(
            triton_address=self._target.removeprefix(GRPC), models=(options.model,)
        )
        return TritonTarget(settings, options.model, options.voice)

    async def _ask(
        self, stack: AsyncExitStack
    ) -> Callable[[], Awaitable[ReplicaStatistics]] | None:
        """Return what asks for Triton's statistics, None where there is nobody to ask."""
        is_grpc = self._target.startswith(GRPC)
        address = self._options.triton or (self._target.removeprefix(GRPC) if is_grpc else None)
        if address is None:
            return None
        reader = StatisticsReader(address)
        stack.push_async_callback(reader.aclose)
        try:
            await reader.read()
        except SpeechError as error:
            reason = f"no statistics from the Triton at {address}: {error.message} ({error.detail})"
            if self._options.triton is not None:
                raise BenchError(reason) from error
            print(f"warning: {reason}; the report will have none", file=sys.stderr)
            return None
        return reader.read


async def _in_pool(pool: Executor, ear: Ear, take: Take, level: str, started: float) -> Measured:
    # The recording would travel to the other process for nothing.
    take.request = replace(take.request, utterance=replace(take.request.utterance, reference=None))
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(pool, measure, take, level, started, ear)


def _pool() -> Executor:
    return ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin_worker)


def _begin_worker() -> None:
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _plan(options: argparse.Namespace) -> Plan:
    if options.cancel_rate + options.slow_rate > 1:
        raise BenchError("--cancel-rate and --slow-rate are more than all together")
    habits = Habits(
        hang_up_share=options.cancel_rate,
        hang_up_seconds=options.cancel_within,
        slow_share=options.slow_rate,
        slow_bytes_per_second=options.slow_bytes,
        timeout_seconds=options.timeout,
        seed=options.seed,
    )
    return Plan(_utterances(options), _steps(options), habits, options.warm_up)


def _steps(options: argparse.Namespace) -> list[Step]:
    count, seconds = options.requests, options.duration
    if options.rate:
        if count is None and seconds is None:
            seconds = OPEN_SECONDS
        return [Step(rate=rate, requests=count, seconds=seconds) for rate in options.rate]
    is_open_ended = count is None and seconds is None
    return [
        Step(
            concurrency=clients,
            requests=max(FEWEST_REQUESTS, REQUESTS_EACH * clients) if is_open_ended else count,
            seconds=seconds,
        )
        for clients in options.concurrency
    ]


def _utterances(options: argparse.Namespace) -> Sequence[Utterance]:
    if options.text_file is not None:
        return workloads.text_file(options.text_file)
    if options.manifest is not None:
        return workloads.manifest(options.manifest)
    if options.dataset is not None:
        name, _, split = options.dataset.partition(":")
        return workloads.dataset(name, split or "train")
    return workloads.built_in(options.texts)


def _ear(options: argparse.Namespace, target: str, folder: Path) -> Ear:
    is_grpc = target.startswith(GRPC)
    if options.format not in FORMATS or (is_grpc and options.format != "pcm"):
        known = "pcm, Triton's samples" if is_grpc else ", ".join(FORMATS)
        raise BenchError(f"--format {options.format} is not possible; {known}")
    audio_dir = None
    if options.save_audio:
        audio_dir = str(folder / "audio")
    layout = PcmLayout(PCM_RATE_HZ, "<f4" if is_grpc else "<i2")
    return Ear(options.format, layout, options.buffer, options.audible, audio_dir)


def _about(
    settings: Settings, options: argparse.Namespace, target: str, plan: Plan
) -> dict[str, Any]:
    # Who reads a report need not learn the key.
    key = settings.client_api_key.get_secret_value()
    command = [word.replace(key, "***") if key else word for word in sys.argv[1:]]
    texts = options.text_file or options.manifest or options.dataset or f"built in, {options.texts}"
    return {
        "started": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "command": shlex.join(["speech-gateway", *command]),
        "target": target,
        "format": options.format,
        "texts": f"{len(plan.utterances)} texts ({texts})",
        "buffer_seconds": options.buffer,
        "audible_dbfs": options.audible,
        "interrupted": False,
        **describe(),
    }
