"""vLLM's surface that this project uses, without a GPU: names and behaviours of 0.24.0.

Importing this puts it in vLLM's place. An engine writes `written(prompt, params)`, one id for each
running request with each step; it steps by itself unless a test holds it.
"""

from __future__ import annotations

import asyncio
import enum
import math
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from fakes import vllm_sampler

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

VOCABULARY = 1000


class EngineDeadError(Exception):
    def __init__(self) -> None:
        super().__init__("EngineCore encountered an issue. See stack trace (above) for ...")


class RequestOutputKind(enum.Enum):
    CUMULATIVE = 0
    DELTA = 1
    FINAL_ONLY = 2


@dataclass
class SamplingParams:
    """The fields that are used, with vLLM's own defaults and refusals."""

    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    detokenize: bool = True
    output_kind: RequestOutputKind = RequestOutputKind.CUMULATIVE
    skip_clone: bool = False
    extra_args: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.repetition_penalty) or self.repetition_penalty <= 0:
            raise ValueError(f"repetition_penalty must be ..., got {self.repetition_penalty}.")
        if not 0 <= self.temperature <= 2:
            raise ValueError(f"temperature must be in [0, 2], got {self.temperature}.")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}.")
        if not isinstance(self.top_k, int):
            raise TypeError(f"top_k must be an integer, got {type(self.top_k).__name__}")
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens must be less than or equal to max_tokens={self.max_tokens}, "
                f"got {self.min_tokens}."
            )


@dataclass(kw_only=True)
class AsyncEngineArgs:
    """The fields that are used, with vLLM's own defaults."""

    model: str
    skip_tokenizer_init: bool = False
    generation_config: str = "auto"
    dtype: str = "auto"
    max_model_len: int = -1
    gpu_memory_utilization: float = 0.92
    max_num_seqs: int | None = None
    enable_prefix_caching: bool | None = None
    block_size: int | None = None
    max_cudagraph_capture_size: int | None = None
    distributed_executor_backend: Any = None
    disable_log_stats: bool = False


class StatLoggerBase:
    def log(self) -> None:
        pass


class UniProcExecutor:
    def _init_executor(self) -> None:
        self.driver_worker = SimpleNamespace(
            worker=SimpleNamespace(model_runner=vllm_sampler.GPUModelRunner())
        )


@dataclass
class CompletionOutput:
    token_ids: list[int]
    finish_reason: str | None = None


@dataclass
class RequestOutput:
    outputs: list[CompletionOutput]
    finished: bool = False


@dataclass(eq=False)
class Sequence:
    """A request in the engine, and the collector that its outputs are merged in."""

    name: str
    prompt: list[int]
    params: SamplingParams
    ids: list[int] = field(default_factory=list)
    pending: RequestOutput | Exception | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, ids: list[int], finish_reason: str | None) -> None:
        if self.params.output_kind is RequestOutputKind.FINAL_ONLY:
            if finish_reason is None:
                return
            ids = self.ids
        if isinstance(self.pending, RequestOutput):
            self.pending.outputs[0].token_ids += ids
            self.pending.outputs[0].finish_reason = finish_reason
        else:
            self.pending = RequestOutput([CompletionOutput(list(ids), finish_reason)])
        self.pending.finished = finish_reason is not None
        self.ready.set()

    async def get(self) -> RequestOutput:
        while self.pending is None:
            await self.ready.wait()
        output, self.pending = self.pending, None
        self.ready.clear()
        if isinstance(output, Exception):
            raise output
        return output


def written(prompt: list[int], params: SamplingParams) -> list[int]:
    """Return all that a request writes."""
    ranges = (params.extra_args or {}).get("allowed_ids", [(0, VOCABULARY - 1)])
    allowed = [i for first, last in ranges for i in range(first, last + 1)]
    ids: list[int] = []
    while len(ids) < (params.max_tokens or 16):
        ids.append(allowed[(prompt[-1] + (params.seed or 0) + 1 + len(ids)) % len(allowed)])
        if ids[-1] in (params.stop_token_ids or ()) and len(ids) >= params.min_tokens:
            break
    return ids


class AsyncLLM:
    """An engine; those that were started are in `started`, `start_errors` come first."""

    started: list[AsyncLLM] = []  # noqa: RUF012  the tests' own
    start_errors: list[Exception] = []  # noqa: RUF012

    def __init__(self, args: AsyncEngineArgs, stat_loggers: list[Callable[..., Any]]) -> None:
        model_config = SimpleNamespace(
            get_vocab_size=lambda: VOCABULARY, max_model_len=args.max_model_len
        )
        self.args = args
        self.vllm_config = SimpleNamespace(model_config=model_config)
        self.stat_loggers = [make(self.vllm_config, 0) for make in stat_loggers]
        self.is_held = False
        self.is_dead = self.is_shut = False
        self.ends_with: str | None = None
        # Then it holds, until a request is taken out.
        self.holds_at: int | None = None
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.aborted: list[Sequence] = []
        self.asked: list[tuple[dict[str, Any], SamplingParams]] = []
        self._stepping: asyncio.Task[None] | None = None

    @classmethod
    def from_engine_args(
        cls, engine_args: AsyncEngineArgs, stat_loggers: list[Callable[..., Any]] | None = None
    ) -> AsyncLLM:
        if cls.start_errors:
            raise cls.start_errors.pop(0)
        cls.started.append(cls(engine_args, stat_loggers or []))
        return cls.started[-1]

    async def generate(
        self, prompt: dict[str, Any], sampling_params: SamplingParams, request_id: str
    ) -> AsyncGenerator[RequestOutput, None]:
        if self.is_dead:
            raise EngineDeadError
        if prompt["prompt_token_ids"][0] == VOCABULARY - 1:
            raise ValueError("vLLM does not take this one.")
        self.asked.append((prompt, sampling_params))
        sequence = Sequence(request_id, prompt["prompt_token_ids"], sampling_params)
        self.waiting.append(sequence)
        self.run()
        try:
            finished = False
            while not finished:
                output = await sequence.get()
                finished = output.finished
                yield output
        except (asyncio.CancelledError, GeneratorExit):
            self.aborted.append(sequence)
            for place in (self.waiting, self.running):
                with suppress(ValueError):
                    place.remove(sequence)
            if self.holds_at is not None:
                self.holds_at, self.is_held = None, False
                self.run()
            raise

    def run(self) -> None:
        """Step until there is nothing to do, or a test holds the engine."""
        if self._stepping is None or self._stepping.done():
            self._stepping = asyncio.get_running_loop().create_task(self._steps())

    async def _steps(self) -> None:
        while (self.running or self.waiting) and not self.is_dead:
            await asyncio.sleep(0)
            if self.is_held:
                return
            self.step()

    def step(self) -> None:
        """Write one id for each request that has a place."""
        while self.waiting and len(self.running) < (self.args.max_num_seqs or 1):
            sequence = self.waiting.pop(0)
            # The engine's process ends with what it finds wrong.
            if sequence.params.seed is not None and not -(2**63) <= sequence.params.seed < 2**63:
                self.waiting.insert(0, sequence)
                self.die()
                return
            self.running.append(sequence)
        finished = []
        for sequence in list(self.running):
            ids = written(sequence.prompt, sequence.params)
            sequence.ids.append(ids[len(sequence.ids)])
            reason = "length" if len(ids) == sequence.params.max_tokens else "stop"
            ended = self.ends_with or (reason if len(sequence.ids) == len(ids) else None)
            sequence.put(sequence.ids[-1:], ended)
            self.is_held = self.is_held or len(sequence.ids) == self.holds_at
            if ended:
                self.running.remove(sequence)
                finished.append(SimpleNamespace(request_id=sequence.name))
        scheduler = SimpleNamespace(
            num_running_reqs=len(self.running),
            num_waiting_reqs=len(self.waiting),
            num_skipped_waiting_reqs=0,
            kv_cache_usage=len(self.running) / 100,
        )
        iteration = SimpleNamespace(num_preempted_reqs=0, finished_requests=finished)
        for logger in self.stat_loggers:
            logger.record(scheduler, iteration, engine_idx=0)

    def die(self) -> None:
        """End as a process that was killed: everyone is told."""
        self.is_dead = True
        for sequence in (*self.running, *self.waiting):
            sequence.pending = EngineDeadError()
            sequence.ready.set()

    async def check_health(self) -> None:
        if self.is_dead:
            raise EngineDeadError

    def shutdown(self, timeout: float | None = None) -> None:
        assert timeout is None
        self.is_dead = self.is_shut = True


def _module(name: str, **values: Any) -> None:
    module = ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module


_module("vllm", SamplingParams=SamplingParams)
for _name in ("engine", "v1", "v1.engine", "v1.executor", "v1.metrics", "v1.worker"):
    _module(f"vllm.{_name}")
for _name in ("gpu", "gpu.sample"):
    _module(f"vllm.v1.worker.{_name}")
_module("vllm.engine.arg_utils", AsyncEngineArgs=AsyncEngineArgs)
_module("vllm.sampling_params", RequestOutputKind=RequestOutputKind)
_module("vllm.v1.engine.async_llm", AsyncLLM=AsyncLLM)
_module("vllm.v1.engine.exceptions", EngineDeadError=EngineDeadError)
_module("vllm.v1.executor.uniproc_executor", UniProcExecutor=UniProcExecutor)
_module("vllm.v1.metrics.loggers", StatLoggerBase=StatLoggerBase)
sys.modules["vllm.v1.worker.gpu.sample.logit_bias"] = vllm_sampler
