"""A speech model on a Triton as a target, over gRPC, without the HTTP service between."""

from __future__ import annotations

import io
import uuid
from contextlib import aclosing
from functools import lru_cache
from typing import TYPE_CHECKING

from gateway.audio.reference import UnfitReferenceError, read_reference
from gateway.backend.triton import TritonSynthesizer
from gateway.bench.load import Names, TargetError
from gateway.bench.requests import BenchError
from gateway.errors import SpeechError
from gateway.speech.deadline import Deadline
from gateway.speech.synthesizer import CallContext
from speech_wire import SynthesisRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    import numpy as np
    import numpy.typing as npt

    from gateway.bench.requests import Take, Utterance
    from gateway.settings import Settings

LONGEST_SECONDS = 3600.0
"""Load alone decides when a listener gives up, and that is before."""


class TritonTarget:
    """One ModelStreamInfer call for each request, as the gateway makes it.

    A model that is not decoupled works too: its only response is first and last.
    """

    def __init__(self, settings: Settings, model: str, voice: str | None) -> None:
        self._model = model
        self._voice = voice
        self._synthesizer = TritonSynthesizer(settings.model_copy(update={"models": (model,)}))
        self._recording = lru_cache(maxsize=None)(_samples)

    async def aclose(self) -> None:
        """See Target.aclose."""
        await self._synthesizer.aclose()

    async def prepare(self, utterances: Sequence[Utterance]) -> Names:
        """See Target.prepare; what the model does not take would not be sent."""
        recordings = {u.reference for u in utterances if u.reference is not None}
        for recording in recordings:
            self._recording(recording)
        try:
            voices = await self._synthesizer.voices(self._model)
            if self._voice is None and voices and not recordings:
                self._voice = voices[0].id
            sent = {"voice"} if self._voice is not None else set()
            sent |= {"reference_wav"} if recordings else set()
            sent |= {"reference_text"} if any(u.transcript for u in utterances) else set()
            missing = [t for t in sorted(sent) if not await self._synthesizer.takes(self._model, t)]
        except SpeechError as error:
            raise BenchError(f"{error.message} ({error.detail})") from error
        if missing:
            raise BenchError(f"Triton's model {self._model!r} does not take {missing}")
        return Names(self._model, self._voice)

    async def speak(self, utterance: Utterance, take: Take) -> AsyncGenerator[bytes, None]:
        """See Target.speak."""
        reference = utterance.reference
        request = SynthesisRequest(
            target_text=utterance.text,
            voice=self._voice,
            reference_wav=None if reference is None else self._recording(reference),
            reference_text=utterance.transcript or None,
        )
        context = CallContext(f"bench_{uuid.uuid4().hex}", Deadline.after(LONGEST_SECONDS))
        chunks = self._synthesizer.stream(self._model, request, context)
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    take.sample_rate_hz = chunk.sample_rate_hz
                    if len(chunk.samples):
                        yield chunk.samples.tobytes()
        except SpeechError as error:
            told = f"{error.message} {error.detail or error.said}".strip()
            raise TargetError(error.code, told) from error


def _samples(reference: bytes) -> npt.NDArray[np.float32]:
    try:
        return read_reference(io.BytesIO(reference))
    except UnfitReferenceError as error:
        raise BenchError(f"a reference recording {error}") from error
