"""The speaker's runs of the tokenizer: nobody's error and no task are left behind."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gateway.errors import BackendFailedError
from gateway.speech.deadline import Deadline
from gateway.speech.speaker import Speaker
from gateway.speech.synthesizer import CallContext
from gateway.speech.types import Reference, Voice
from gateway.speech.voice_cache import VoiceCache
from speech_wire import SynthesisRequest

if TYPE_CHECKING:
    from gateway.speech.types import VoiceTokens

pytestmark = pytest.mark.anyio

ANNA = Voice("anna", "spark_tts", None, Reference(np.ones(16_000, np.float32)))


class FakeSynthesizer:
    """Takes tokens; its tokenizer fails as soon as it may."""

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.may_fail = asyncio.Event()

    async def takes(self, *_: Any) -> bool:
        return True

    async def tokenizer(self) -> str:
        return "fake"

    async def tokenise(self, *_: Any) -> VoiceTokens:
        self.is_asked.set()
        await self.may_fail.wait()
        raise BackendFailedError("boom")


def speak(speaker: Speaker) -> asyncio.Future[Any]:
    request = SynthesisRequest(target_text="Hello.")
    return asyncio.ensure_future(
        anext(speaker.speak(ANNA, request, CallContext("one", Deadline.after(9))))
    )


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_an_error_that_nobody_waits_for_is_not_reported() -> None:
    reported: list[dict[str, Any]] = []
    before = asyncio.all_tasks()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    synthesizer = FakeSynthesizer()
    speaker = Speaker(synthesizer, VoiceCache(None), 9.0)
    leaving = speak(speaker)
    await synthesizer.is_asked.wait()
    leaving.cancel()
    await asyncio.wait({leaving})
    del leaving  # Its traceback would keep the run, and only what is forgotten is reported.

    synthesizer.may_fail.set()
    await asyncio.wait(asyncio.all_tasks() - before)
    gc.collect()

    assert reported == []


async def test_a_run_ends_with_the_speaker() -> None:
    before = asyncio.all_tasks()
    synthesizer = FakeSynthesizer()
    speaker = Speaker(synthesizer, VoiceCache(None), 9.0)
    waiting = speak(speaker)
    await synthesizer.is_asked.wait()

    await speaker.aclose()

    assert (await asyncio.wait({waiting}))[0] == {waiting}
    assert asyncio.all_tasks() == before
