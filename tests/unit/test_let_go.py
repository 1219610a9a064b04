"""Sound that has been sent is held by nobody while the next is waited for: streams are many."""

from __future__ import annotations

import asyncio
import weakref
from contextlib import AsyncExitStack, aclosing
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from fakes.clock import Clock
from fakes.records import make_record
from gateway.audio.pipeline import AudioPipeline
from gateway.backend.stream import StreamCaller, StreamLimits
from gateway.speech.deadline import Deadline
from gateway.speech.segments import speak_ahead
from gateway.speech.service import SpeechService, SpeechStream
from gateway.speech.speaker import Speaker
from gateway.speech.types import Voice
from gateway.speech.voice_cache import VoiceCache
from speech_wire import PcmChunk, SynthesisRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

pytestmark = pytest.mark.anyio

CHUNKS = 3
CHUNK_SAMPLES = 2400


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def settled() -> None:
    """Let every task run as far as it can."""
    for _ in range(50):
        await asyncio.sleep(0)


class FakeSynthesizer:
    """Makes a few chunks and then nothing more; remembers their samples, without holding them."""

    def __init__(self) -> None:
        self.made: list[weakref.ref[Any]] = []

    async def stream(self, *_: Any) -> AsyncGenerator[PcmChunk, None]:
        for _number in range(CHUNKS):
            chunk = PcmChunk(np.full(CHUNK_SAMPLES, 0.5, np.float32), 24_000)
            self.made.append(weakref.ref(chunk.samples))
            yield chunk
            del chunk
        await asyncio.Event().wait()


async def test_samples_go_once_they_are_with_the_listener() -> None:
    record, synthesizer = make_record(Clock()), FakeSynthesizer()
    speaker = Speaker(synthesizer, VoiceCache(None), 1.0)  # type: ignore[arg-type]
    service = SpeechService(None, None, None, speaker, None)  # type: ignore[arg-type]
    speak = partial(service._speak, record, Voice("heart", "hibari"), SynthesisRequest(""))
    pipeline = AudioPipeline("pcm", 24_000, 24_000, 1.0)
    heard_bytes = 0

    async with aclosing(speak_ahead(iter(["Hello."]), speak, 0.0)) as chunks:
        stream = SpeechStream(record, await anext(chunks), chunks, pipeline, AsyncExitStack())
        async with aclosing(stream.packets()) as packets:
            while heard_bytes < CHUNKS * CHUNK_SAMPLES * 2:
                heard_bytes += len(await anext(packets))
            waiting = asyncio.ensure_future(anext(packets))
            await settled()
            held = [samples for samples in synthesizer.made if samples() is not None]
            waiting.cancel()
            await asyncio.wait({waiting})

    assert len(synthesizer.made) == CHUNKS
    assert held == []


class Response:
    """Of the model, not the last."""

    parameters: ClassVar[dict[str, Any]] = {}
    outputs = ("waveform",)


class FakeCall:
    """An RPC that answers a few times and then is silent."""

    def __init__(self) -> None:
        self.answers: list[weakref.ref[Any]] = []

    async def write(self, _: Any) -> None: ...

    async def read(self) -> Any:
        if len(self.answers) == CHUNKS:
            await asyncio.Event().wait()
        response = Response()
        self.answers.append(weakref.ref(response))
        return SimpleNamespace(error_message="", infer_response=response)

    def cancel(self) -> None: ...


async def test_answers_of_triton_go_once_the_next_is_asked_for() -> None:
    call = FakeCall()
    stub = SimpleNamespace(ModelStreamInfer=lambda **_: call)
    caller = StreamCaller(stub, StreamLimits(10.0, 10.0))
    responses = caller.stream(service_pb2.ModelInferRequest(), lambda: None, Deadline.after(10.0))

    async def take_all() -> None:
        async for response in responses:
            assert response.outputs
            del response

    taking = asyncio.ensure_future(take_all())
    await settled()
    held = [answer for answer in call.answers if answer() is not None]
    taking.cancel()
    await asyncio.wait({taking})

    assert len(call.answers) == CHUNKS
    assert held == []
