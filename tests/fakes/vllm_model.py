"""Requests to vLLM's adapter, and the model that answers them with a scripted engine."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import numpy as np

from fakes.vllm import written
from speech_backend.vllm_engine.start import sampling_params
from speech_wire import GenerationRequest

if TYPE_CHECKING:
    from speech_backend.vllm_engine.model import VllmModel

PARAMETERS = {
    "model_dir": "/models/spark",
    "dtype": "bfloat16",
    "max_sequence_tokens": "400",
    "memory_fraction": "0.4",
    "max_running": "4",
}


def request(last: int = 5, count: int = 20, **more: Any) -> GenerationRequest:
    ids = np.array([1, 2, last], np.int32)
    return replace(GenerationRequest(ids, count, is_streaming=True), **more)


def expected(asked: GenerationRequest) -> list[int]:
    return written(asked.input_ids.tolist(), sampling_params(asked))


async def whole(model: VllmModel, asked: GenerationRequest) -> list[int]:
    return [i async for new in model.generate(asked) for i in new.ids.tolist()]


async def until(happened: Any) -> None:
    """Let the other tasks go on until it has happened."""
    with anyio.fail_after(10):
        while not happened():  # noqa: ASYNC110  the far side gives no event
            await asyncio.sleep(0)
