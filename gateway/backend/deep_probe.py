"""Has a Triton really speak: a model may say that it is ready and yet make no sound."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from gateway.errors import BackendFailedError, SpeechError
from gateway.speech.deadline import Deadline
from gateway.speech.synthesizer import CallContext
from speech_wire import SynthesisRequest

if TYPE_CHECKING:
    from gateway.backend.contracts import ModelContract
    from gateway.backend.replica import Replica

WORD = "Yes."
TIMEOUT_SECONDS = 30.0
LABELS = ("gender", "pitch", "speed_label")


async def speak_a_word(replica: Replica, model: str) -> SpeechError | None:
    """Return why the model does not speak, None once there is its first sound.

    It is None, too, for a model that speaks only with a recording: there is none to try it with.
    """
    request = word_for(replica.contracts[model])
    if request is None:
        return None
    context = CallContext("probe", Deadline.after(TIMEOUT_SECONDS))
    try:
        async with aclosing(replica.stream(model, request, context)) as chunks:
            async for chunk in chunks:
                if len(chunk.samples):
                    return None
    except SpeechError as error:
        if error.fault in ("failed", "silent"):
            # Of a word that it spoke before, it is not the text's doing.
            error.fault = "died"
        return error
    silence = BackendFailedError("the model made no audio of a word")
    silence.fault = "died"
    return silence


def word_for(contract: ModelContract) -> SynthesisRequest | None:
    """Return the request for a word, None where the model needs what we do not have."""
    if contract.voices:
        return SynthesisRequest(target_text=WORD, voice=contract.voices[0].id)
    if contract.inputs.issuperset(LABELS):
        return SynthesisRequest(
            target_text=WORD, gender="female", pitch="moderate", speed_label="moderate"
        )
    return None if "reference_wav" in contract.inputs else SynthesisRequest(target_text=WORD)
