"""Triton's requests to Spark-TTS's front: one event loop, in which utterances wait for stages."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from speech_backend.loop import LoopThread
from speech_backend.loopback import LoopbackStages, StageNames, read_access
from speech_backend.serving import SPEECH
from speech_backend.spark import load_speaker
from speech_backend.stages import AT_ONCE
from speech_backend.tasks import RequestTasks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from speech_wire import PcmChunk, SynthesisRequest


class FrontRequests:
    """Speaks Triton's requests with the models that `parameters` name."""

    def __init__(
        self, pb_utils: Any, model: str, parameters: Mapping[str, str], at_once: int = AT_ONCE
    ) -> None:
        """Read the tokenizer; the stages are asked at the first request."""
        self._thread = LoopThread()
        self._stages = self._thread.run(_open_stages(parameters, at_once))
        self._speaker = load_speaker(self._stages, parameters)
        self._turns = asyncio.Semaphore(at_once)
        self._tasks = RequestTasks(pb_utils, model, self._speak, SPEECH, self._thread.loop)

    def accept(self, request: Any) -> None:
        """Take a request and return at once; its sender answers from another thread."""
        self._tasks.accept(request)

    def close(self) -> None:
        """Wait for the requests that are being spoken, and for their streams to end."""
        self._tasks.close()
        self._thread.run(self._stages.close())
        self._thread.close()

    async def _speak(self, request: SynthesisRequest) -> AsyncGenerator[PcmChunk, None]:
        async with self._turns, aclosing(self._speaker.synthesize(request)) as chunks:
            async for chunk in chunks:
                yield chunk


async def _open_stages(parameters: Mapping[str, str], at_once: int) -> LoopbackStages:
    """Return the stages; a channel of gRPC belongs to the loop that it is opened in."""
    names = StageNames(**{n: parameters[n] for n in ("llm", "vocoder", "audio_tokenizer")})
    address = parameters["triton_address"]
    return LoopbackStages(address, names, access=read_access(), at_once=at_once)
