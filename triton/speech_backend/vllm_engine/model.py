"""Goes on from ids with vLLM, many requests in one batch."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from speech_backend.limits import check_generation
from speech_backend.serving import InvalidInputError
from speech_backend.vllm_engine.figures import Figures
from speech_backend.vllm_engine.live import EngineDownError, LiveEngine
from speech_backend.vllm_engine.pace import FASTEST_STEP_SECONDS, MAX_GATHER_SECONDS, Pacer
from speech_backend.vllm_engine.start import EngineDeadError, sampling_params, start_engine
from speech_wire import GenerationRequest, NewIds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping

FAILED = ("abort", "error")
"""Why vLLM may end a request that nobody has cancelled."""

WARM_UP_REQUESTS = 16
"""They end one after the other: kernels that sort the probabilities of eight or more are compiled
for sizes that 16 divides, and for others."""

WARM_UP_IDS = 64


async def until_ended(ended: asyncio.Future[None], seconds: float) -> None:
    """Wait for the end of a request, for so long at most."""
    await asyncio.wait({ended}, timeout=seconds)


class VllmModel:
    """One engine and all requests to it, in one event loop."""

    def __init__(
        self,
        parameters: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[asyncio.Future[None], float], Awaitable[None]] = until_ended,
        give_up: Callable[[], None] = lambda: os._exit(1),
    ) -> None:
        self._figures = Figures()
        self._pacer = Pacer(clock)
        self._pause = pause
        self._names = map(str, itertools.count())
        self._ends: dict[str, asyncio.Future[None]] = {}
        self.live = LiveEngine(
            lambda: start_engine(parameters, self._figures, self._end), self._warm_up, give_up
        )

    @property
    def figures(self) -> Figures:
        """What the engine does."""
        self._figures.restarts = self.live.restarts
        return self._figures

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[NewIds, None]:
        """Yield ids as they are written, more together where nobody waits for them.

        Raises InvalidInputError for what cannot be asked, EngineDownError where the engine is
        dead or dies. Closing the generator takes the request out of the next step.
        """
        engine = self.live.get()
        try:
            async with aclosing(self._ask(engine, request)) as answers:
                async for answer in answers:
                    yield answer
        except EngineDeadError as error:
            self.live.replace(engine, error)
            raise EngineDownError from error
        except ValueError as error:
            # What vLLM refuses, it refuses before the first id, for a reason in the request.
            raise InvalidInputError(str(error)) from error

    async def _ask(self, engine: Any, request: GenerationRequest) -> AsyncGenerator[NewIds, None]:
        config = engine.vllm_config.model_config
        check_generation(request, config.get_vocab_size(), config.max_model_len)
        prompt = {"type": "token", "prompt_token_ids": request.input_ids.tolist()}
        name = next(self._names)
        outputs = engine.generate(prompt, sampling_params(request), name)
        ids: list[int] = []
        first_ids = min(request.first_ids, request.max_new_tokens)
        with self._pacer.request(first_ids) as pace, self._ending(name) as ended:
            async with aclosing(outputs):
                async for output in outputs:
                    (written,) = output.outputs
                    if written.finish_reason in FAILED:
                        raise RuntimeError(f"the engine ended it as '{written.finish_reason}'")
                    ids += written.token_ids
                    # What is written in a pause, vLLM hands over together.
                    if not output.finished and (missing := pace.missing(len(ids))):
                        shortest = (missing - 1) * FASTEST_STEP_SECONDS
                        await self._pause(ended, min(shortest, MAX_GATHER_SECONDS))
                        continue
                    if ids:
                        yield NewIds(np.array(ids, np.int32))
                    if not output.finished:
                        await self._pause(ended, pace.pause_seconds(len(ids)))
                    ids = []

    @contextmanager
    def _ending(self, name: str) -> Iterator[asyncio.Future[None]]:
        """Give what is done when the engine has ended a request, before that has been read."""
        self._ends[name] = asyncio.get_running_loop().create_future()
        try:
            yield self._ends[name]
        finally:
            del self._ends[name]

    def _end(self, name: str) -> None:
        ended = self._ends.get(name)
        if ended is not None and not ended.done():
            ended.set_result(None)

    async def _warm_up(self, engine: Any) -> None:
        """Have a batch write a little, so that the first request costs what the second does."""
        ids = np.zeros(WARM_UP_IDS, np.int32)
        asked = GenerationRequest(ids, 0, temperature=0.8, top_k=50, top_p=0.95, is_streaming=True)
        lengths = range(2, 2 + WARM_UP_REQUESTS)
        await asyncio.gather(
            *(self._write(engine, replace(asked, max_new_tokens=length)) for length in lengths)
        )

    async def _write(self, engine: Any, request: GenerationRequest) -> None:
        async for _ in self._ask(engine, request):
            pass
