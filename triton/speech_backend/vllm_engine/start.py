"""vLLM, as this project starts and asks it.

Written against 0.24.0. The engine is a process of its own; AsyncLLM speaks with it over ZeroMQ.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError
from vllm.v1.executor.uniproc_executor import UniProcExecutor
from vllm.v1.metrics.loggers import StatLoggerBase

from speech_backend.serving import InvalidInputError
from speech_backend.vllm_engine import allowed
from speech_backend.vllm_engine.figures import FigureRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from speech_backend.vllm_engine.figures import Figures
    from speech_wire import GenerationRequest

__all__ = ["EngineDeadError", "sampling_params", "start_engine"]

ENVIRONMENT = {
    # A stub has threads, and what they hold is never let go in a copy of it.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    # FlashInfer's sampler knows no seeds.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    # The runner that keeps a batch's state on the GPU, vLLM's own choice for newer models: a step
    # costs the processor less, and a request draws the same by its seed whoever else is there.
    "VLLM_USE_V2_MODEL_RUNNER": "1",
    # Torch's threads wait for each other busily, and the engine's process computes on the GPU.
    "OMP_NUM_THREADS": "1",
    # Nothing is told to anyone.
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}

SEEDS = 2**63
"""The engine keeps one in an int64, and takes -1 for none."""

MAX_END_IDS = 128
"""More cannot be kept back until `min_new_tokens` are written."""


class OwnedExecutor(UniProcExecutor):
    """An executor whose process ends with the one that started it, whatever ended that.

    vLLM's own lives on when its parent is killed, and keeps the GPU's memory. Requests in it are
    held to their allowed ids.
    """

    def _init_executor(self) -> None:
        """Watch the parent from before the weights are loaded."""
        parent = multiprocessing.parent_process()
        threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()
        super()._init_executor()
        allowed.hold_requests(self.driver_worker.worker.model_runner)


def _exit_after(parent: Any) -> None:
    parent.join()
    os._exit(1)


def start_engine(
    parameters: Mapping[str, str], figures: Figures, ended: Callable[[str], None]
) -> AsyncLLM:
    """Return a running engine for the checkpoint at `model_dir`; takes up to a minute.

    `max_sequence_tokens` is the longest sequence, `memory_fraction` the share of the GPU's memory
    for weights, keys and values (graphs come on top of it), `max_running` the largest batch.
    `ended` is told the name of each request that has ended. Raises vLLM's error, whose cause its
    process has logged, where the memory does not hold one sequence of that length.
    """
    os.environ.update(ENVIRONMENT)

    class Logger(StatLoggerBase):
        """Hands each step's figures on."""

        def __init__(self, *_: Any) -> None:
            self._recorder = FigureRecorder(figures, ended)

        def record(self, scheduler_stats: Any, iteration_stats: Any, *_: Any, **__: Any) -> None:
            self._recorder.record(scheduler_stats, iteration_stats)

        def log_engine_initialized(self) -> None:
            pass

    arguments = AsyncEngineArgs(
        model=str(Path(parameters["model_dir"]) / "LLM"),
        skip_tokenizer_init=True,
        # Requests say all that the checkpoint's own defaults would.
        generation_config="vllm",
        dtype=parameters["dtype"],
        max_model_len=int(parameters["max_sequence_tokens"]),
        gpu_memory_utilization=float(parameters["memory_fraction"]),
        max_num_seqs=int(parameters["max_running"]),
        # Prompts begin with their text, so that hardly anything is shared, and a cached prefix
        # is rounded in another way.
        enable_prefix_caching=False,
        # A step looks after each page, and fewer of them cost the processor less; half of one, 400
        # kB, is wasted with each request.
        block_size=64,
        # Else a step in which a prompt joins has no graph, and is launched kernel by kernel; with
        # more than 512 ids in a step (a reference of 8 s, say) it is anyway.
        max_cudagraph_capture_size=512,
        distributed_executor_backend=OwnedExecutor,
        disable_log_stats=True,
    )
    return AsyncLLM.from_engine_args(arguments, stat_loggers=[Logger])


def sampling_params(request: GenerationRequest) -> SamplingParams:
    """Return vLLM's words for how a request samples; raises InvalidInputError where it has none.

    Of a seed, the lower 63 bits count.
    """
    is_greedy = request.top_k == 1 or request.top_k == request.top_p == 0
    # What the engine's process finds wrong with a request ends it for all of them.
    if request.min_new_tokens and len(request.end_ids) > MAX_END_IDS:
        raise InvalidInputError(
            f"min_length is {request.min_new_tokens} with {len(request.end_ids)} end ids; with "
            f"more than {MAX_END_IDS} only 0 is allowed"
        )
    try:
        return SamplingParams(
            temperature=0.0 if is_greedy else request.temperature,
            top_k=request.top_k,
            top_p=request.top_p or 1.0,
            repetition_penalty=request.repetition_penalty,
            seed=None if request.seed is None else request.seed % SEEDS,
            min_tokens=request.min_new_tokens,
            max_tokens=request.max_new_tokens,
            stop_token_ids=sorted(request.end_ids),
            ignore_eos=True,
            extra_args=allowed.allowed_arguments(request),
            detokenize=False,
            output_kind=(
                RequestOutputKind.DELTA if request.is_streaming else RequestOutputKind.FINAL_ONLY
            ),
            # Made for this request alone.
            skip_clone=True,
        )
    except ValueError as error:
        raise InvalidInputError(str(error)) from error
