"""Triton's requests to vLLM: the event loop of a model's process, in a thread of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from speech_backend.loop import LoopThread, repeat
from speech_backend.tasks import RequestTasks
from speech_backend.vllm_engine.figures import FigureMetrics
from speech_backend.vllm_engine.model import VllmModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from speech_backend.serving import Codec

LOOK_SECONDS = 1.0
"""How often figures are published, and an engine that nobody asks is looked after."""


class VllmRequests:
    """Answers requests as `threads.RequestThreads` does, with the engine of `parameters`."""

    def __init__(
        self, pb_utils: Any, model: str, parameters: Mapping[str, str], codec: Codec
    ) -> None:
        """Start the engine and warm it up."""
        self._thread = LoopThread()
        loop = self._thread.loop
        self._model = VllmModel(parameters)
        self._thread.run(self._model.live.open())
        self._tasks = RequestTasks(pb_utils, model, self._model.generate, codec, loop)
        self._metrics = FigureMetrics(pb_utils, model)
        self._thread.run(self._look())
        self._looking = asyncio.run_coroutine_threadsafe(repeat(LOOK_SECONDS, self._look), loop)

    def accept(self, request: Any) -> None:
        """Take a request and return at once; its sender answers from another thread."""
        self._tasks.accept(request)

    def close(self) -> None:
        """Wait for the requests that are being answered, then end the engine."""
        self._looking.cancel()
        self._tasks.close()
        self._thread.run(self._model.live.close())
        self._thread.close()

    async def _look(self) -> None:
        await self._model.live.check()
        await self._tasks.call(self._metrics.publish, self._model.figures)
