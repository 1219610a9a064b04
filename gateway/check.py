"""`speech-gateway check`: prints the settings, asks Triton, speaks one word."""

from __future__ import annotations

import uuid
from contextlib import aclosing
from typing import TYPE_CHECKING

from gateway.backend.triton import TritonSynthesizer
from gateway.errors import BackendFailedError, SpeechError
from gateway.speech.deadline import Deadline
from speech_wire import SynthesisRequest

if TYPE_CHECKING:
    from gateway.settings import Settings

WORD = "Yes."
TIMEOUT_SECONDS = 30.0


async def check(settings: Settings) -> int:
    """Print what works and what does not; return 0 if every model really speaks."""
    print("settings:")
    for name, value in settings:
        shown = ",".join(map(str, value)) if isinstance(value, tuple) else value
        print(f"  SPEECH_{name.upper()}={'' if shown is None else shown}")
    synthesizer = TritonSynthesizer(settings)
    try:
        unready = await synthesizer.unready()
        results = [
            await _check_model(synthesizer, model, unready.get(model)) for model in settings.models
        ]
    finally:
        await synthesizer.aclose()
    return 0 if all(results) else 1


async def _check_model(
    synthesizer: TritonSynthesizer, model: str, unready: SpeechError | None
) -> bool:
    if unready:
        print(f"model {model}: NOT READY: {_explained(unready)}")
        return False
    try:
        voices = [voice.id for voice in await synthesizer.voices(model)]
        seconds = await _speak(synthesizer, model, voices[0] if voices else None)
        if seconds == 0:
            raise BackendFailedError("the model ended without any audio")
    except SpeechError as error:
        print(f"model {model}: DOES NOT SPEAK: {_explained(error)}")
        return False
    print(f"model {model}: speaks ({seconds:.2f} s for {WORD!r}); voices: {', '.join(voices)}")
    return True


def _explained(error: SpeechError) -> str:
    return f"{error.message} ({error.detail})" if error.detail else error.message


async def _speak(synthesizer: TritonSynthesizer, model: str, voice: str | None) -> float:
    request = SynthesisRequest(target_text=WORD, voice=voice)
    deadline = Deadline.after(TIMEOUT_SECONDS)
    seconds = 0.0
    chunks = synthesizer.stream(model, request, deadline, f"check_{uuid.uuid4().hex}")
    async with aclosing(chunks):
        async for chunk in chunks:
            seconds += len(chunk.samples) / (chunk.sample_rate_hz or 1)
    return seconds
