"""The language model on vLLM, on a CUDA GPU, with random weights of full size: `make gpu-llm`.

Prints tables of one run and writes the figures as JSON (`--out`); nothing is asserted. Each
engine runs in a process of its own, which is killed at the end: its engine has to end with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import time
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpu_llm_asks as asks
import torch
from transformers import Qwen2ForCausalLM

from engine.fixture.language import write_language_model
from engine.fixture.vocabulary import FULL_TOKENS, write_tokenizer
from speech_backend.serving import InvalidInputError
from speech_backend.vllm_engine.live import EngineDownError
from speech_backend.vllm_engine.model import VllmModel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from speech_wire import GenerationRequest

PARAMETERS = {"dtype": "bfloat16", "max_sequence_tokens": "8192", "max_running": "128"}
MODES = {"plain": "0.4", "invariant": "0.04"}
"""The share of the GPU's memory for each; the second one also runs vLLM's batch-invariant kernels,
and has to wait for memory."""

BATCHES = (1, 4, 16, 64)
MIXED, MIXED_AT_ONCE, CANCELLED_SHARE = 2000, 120, 0.15
GONE_SECONDS = 10.0


class Measuring:
    """What is measured of one engine; each part is kept as soon as it is there."""

    def __init__(self, folder: Path, mode: str, out: Path) -> None:
        self.folder, self.mode, self.out = folder, mode, out
        parameters = {"model_dir": str(folder), "memory_fraction": MODES[mode], **PARAMETERS}
        self.model = VllmModel(parameters)
        self.asks = asks.Asks(folder)
        self.results: dict[str, Any] = {}

    async def run(self) -> None:
        """Measure part after part; one that fails is noted, and the next goes on."""
        parts: tuple[Callable[[], Awaitable[Any]], ...] = (self.start, self.seeds, self.mixed)
        plain = (self.parity, self.refusals, self.speed, self.death)
        for part in (*parts, *(plain if self.mode == "plain" else (self.memory,))):
            name, began = part.__name__, time.monotonic()
            try:
                self.results[name] = await asyncio.wait_for(part(), 150)
            except Exception as error:  # noqa: BLE001  the other parts are worth having
                self.results[name] = f"{type(error).__name__}: {error}"
            seconds = time.monotonic() - began
            print(f"\n{self.mode} {name} ({seconds:.1f} s)\n{asks.table(self.results[name])}")
            sys.stdout.flush()
            self.out.write_text(json.dumps(self.results, indent=1), "utf-8")

    async def start(self) -> dict[str, Any]:
        """Start the engine."""
        began = time.monotonic()
        await self.model.live.open()
        cache = self.engine.vllm_config.cache_config
        return {
            "seconds": time.monotonic() - began,
            "ids that memory holds": cache.num_gpu_blocks * cache.block_size,
        }

    @property
    def engine(self) -> Any:
        """The engine that runs."""
        return self.model.live.get()

    def engine_pid(self) -> Any:
        """Return the process of the engine."""
        return self.engine.engine_core.resources.engine_manager.processes[0].pid

    async def parity(self) -> list[dict[str, Any]]:
        """Compare greedy ids and their probabilities with transformers', given the same prefix."""
        requests = self.asks.greedy(8, 200)
        runs = [await asks.with_gaps(self.engine, request) for request in requests]
        exact = self._logits(torch.float32, requests, runs)
        half = self._logits(torch.bfloat16, requests, runs)
        return [asks.compared(*row) for row in zip(runs, exact, half, strict=True)]

    def _logits(
        self, dtype: torch.dtype, requests: list[GenerationRequest], runs: list[asks.Run]
    ) -> list[torch.Tensor]:
        model = Qwen2ForCausalLM.from_pretrained(self.folder / "LLM", dtype=dtype).to("cuda")
        found = []
        for request, run in zip(requests, runs, strict=True):
            ids = torch.tensor([request.input_ids.tolist() + run.ids[:-1]], device="cuda")
            with torch.inference_mode():
                logits = model(ids).logits[0, len(request.input_ids) - 1 :]
            found.append(logits.float().log_softmax(-1).cpu())
        return found

    async def seeds(self) -> dict[str, Any]:
        """Compare sampled requests alone with the same ones alone again, and in a full batch."""
        requests = self.asks.sampled(64, 150, seeded=True)
        twice = requests[:8] * 2
        written = [(await asks.adapted(self.model, request)).ids for request in twice]
        alone, again = written[:8], written[8:]
        runs = await asyncio.gather(*(asks.adapted(self.model, request) for request in requests))
        firsts = list(map(asks.first_difference, alone, (run.ids for run in runs)))
        same = {"equal again": sum(map(list.__eq__, alone, again)), "equal": firsts.count(None)}
        return {"requests": len(alone), **same, "first differences": firsts}

    async def mixed(self) -> dict[str, Any]:
        """Have requests join, leave and be cancelled at random; compare each with its own alone."""
        distinct = self.asks.greedy(32, 160)
        alone = [await asks.with_gaps(self.engine, request) for request in distinct]
        draw, room = random.Random(7), asyncio.Semaphore(MIXED_AT_ONCE)
        plans = [
            (draw.randrange(32), draw.randrange(5, 160), draw.random() < CANCELLED_SHARE)
            for _ in range(MIXED)
        ]

        async def one(plan: tuple[int, int, bool]) -> list[int]:
            which, count, is_cancelled = plan
            ids: list[int] = []
            async with room:
                request = replace(distinct[which], max_new_tokens=160 if is_cancelled else count)
                async with aclosing(self.model.generate(request)) as answers:
                    async for new in answers:
                        ids += new.ids.tolist()
                        if is_cancelled and len(ids) >= count:
                            break
            return ids

        began = time.monotonic()
        got = await asyncio.gather(*map(one, plans))
        seconds = time.monotonic() - began
        lost, gaps = 0, []
        for (which, count, is_cancelled), ids in zip(plans, got, strict=True):
            lost += len(ids) < count or (len(ids) != count and not is_cancelled)
            place = asks.first_difference(alone[which].ids[: len(ids)], ids)
            gaps += [] if place is None else [alone[which].gaps[place]]
        every = sorted(gap for run in alone for gap in run.gaps)
        return {
            "requests": MIXED,
            "cancelled": sum(plan[2] for plan in plans),
            "of a wrong length": lost,
            "equal": MIXED - len(gaps),
            "largest gap (log p) where another id was written": max(gaps, default=None),
            "median gap of all ids": statistics.median(every),
            "left running": self.model.figures.running,
            "seconds": seconds,
        }

    async def refusals(self) -> list[dict[str, Any]]:
        """Ask what cannot be, beside a request that can."""
        right = self.asks.greedy(1, 60)[0]
        alone = (await asks.adapted(self.model, right)).ids
        rows = []
        for name, wrong in self.asks.impossible(8192).items():
            beside = asyncio.create_task(asks.adapted(self.model, right))
            try:
                words = str(len((await asks.adapted(self.model, wrong)).ids))
            except InvalidInputError as error:
                words = str(error)
            is_whole = asks.first_difference((await beside).ids, alone) is None
            rows.append({"asked": name, "answer": words, "the other": is_whole})
        return rows

    async def memory(self) -> dict[str, Any]:
        """Ask for more than the memory holds: some wait or lose their place, none their ids."""
        cache = self.engine.vllm_config.cache_config
        count = min(4000, int(1.3 * cache.num_gpu_blocks * cache.block_size / 128))
        requests = self.asks.greedy(4, count)
        alone = [(await asks.adapted(self.model, request)).ids for request in requests]
        before = self.model.figures.preemptions
        runs = await asyncio.gather(
            *(asks.adapted(self.model, requests[number % 4]) for number in range(128))
        )
        same = [run.ids == alone[number % 4] for number, run in enumerate(runs)]
        lost = self.model.figures.preemptions - before
        return {"ids of each": count, "requests": 128, "equal": sum(same), "preempted": lost}

    async def speed(self) -> list[dict[str, Any]]:
        """Measure steps of the bare engine and through the adapter."""
        rows = []
        for batch in BATCHES:
            for name, through, options in asks.VARIANTS:
                requests = self.asks.sampled(batch, 300, prompt_ids=400, **options)
                write = asks.adapted if through else asks.bare
                target = self.model if through else self.engine
                began, before = time.monotonic(), replace(self.model.figures)
                runs = await asyncio.gather(*(write(target, request) for request in requests))
                seconds = self.model.figures.step_seconds - before.step_seconds
                steps = {"step ms": 1000 * seconds / (self.model.figures.steps - before.steps)}
                rows.append({"batch": batch, "how": name, **steps, **asks.pace(runs, began)})
        return rows

    async def death(self) -> dict[str, Any]:
        """Kill the engine while it writes."""
        request = self.asks.greedy(1, 60)[0]
        before = (await asks.adapted(self.model, request)).ids
        tasks = [
            asyncio.create_task(asks.adapted(self.model, long))
            for long in self.asks.sampled(16, 7000)
        ]
        await asyncio.sleep(1)
        os.kill(self.engine_pid(), signal.SIGKILL)
        began = time.monotonic()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        failed_after = time.monotonic() - began
        after = await self._again(request)
        return {
            "failed": sum(isinstance(error, EngineDownError) for error in ended),
            "seconds until they did": failed_after,
            "seconds until it wrote again": time.monotonic() - began,
            "the same as before": before == after,
        }

    async def _again(self, request: GenerationRequest) -> list[int]:
        """Ask until there is an engine that answers."""
        while True:
            try:
                return (await asks.adapted(self.model, request)).ids
            except EngineDownError:
                await asyncio.sleep(0.5)


def measure(folder: Path, mode: str, out: Path) -> None:
    """Measure one engine, then wait to be killed."""

    async def work() -> None:
        measuring = Measuring(folder, mode, out)
        await measuring.run()
        print(f"engine {measuring.engine_pid()}", flush=True)
        await asyncio.Event().wait()

    asyncio.run(work())


def watch(folder: Path, mode: str, out: Path) -> bool:
    """Have a process measure and kill it at its end; return whether its engine ended too."""
    command = [sys.executable, __file__, str(folder), "--mode", mode, "--out", str(out)]
    environment = {**os.environ, "VLLM_BATCH_INVARIANT": str(int(mode == "invariant"))}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("engine "):
                child.kill()
                return is_gone(int(line.split()[1]))
            print(line, end="", flush=True)
    return False


def is_gone(pid: int) -> bool:
    """Whether a process ends by itself soon."""
    began = time.monotonic()
    while time.monotonic() < began + GONE_SECONDS:
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    return False


def main() -> None:
    """Write the weights, measure both engines, write the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="for the weights (2 GB)")
    parser.add_argument("--out", type=Path, default=Path("gpu_llm.json"))
    parser.add_argument("--mode", choices=MODES, help="one engine, as this program asks itself")
    options = parser.parse_args()
    if options.mode:
        measure(options.folder, options.mode, options.out)
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {platform.python_version()}")
    if not (options.folder / "LLM").is_dir():
        (options.folder / "LLM").mkdir(parents=True)
        vocabulary = write_tokenizer(options.folder / "LLM", full=True)
        write_language_model(options.folder / "LLM", "full", vocabulary, FULL_TOKENS, seed=1)
    for mode in MODES:
        part = options.out.with_suffix(f".{mode}.json")
        ended = watch(options.folder, mode, part)
        print(f"\n{mode}: the engine {'ended' if ended else 'lived on'} after its process's death")


if __name__ == "__main__":
    main()
