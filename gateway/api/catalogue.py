"""GET /v1/models and /v1/audio/voices: what a caller may name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from gateway.api.deps import State, StateDep
from gateway.errors import UnknownModelError, UnknownVoiceError

if TYPE_CHECKING:
    from gateway.speech.types import Voice

router = APIRouter(tags=["catalogue"])

CREATED = 1_795_996_800
"""OpenAI's clients want a number here; ours is the day of the first version, 2026-11-30."""


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "speech-gateway"}


@router.get("/v1/models")
async def list_models(state: StateDep) -> dict[str, Any]:
    """List the models."""
    return {"object": "list", "data": [_model(name) for name in state["settings"].models]}


@router.get("/v1/models/{model}")
async def retrieve_model(model: str, state: StateDep) -> dict[str, Any]:
    """Describe one model."""
    if model not in state["settings"].models:
        raise UnknownModelError(
            f"model {model!r} is not served here; there are {list(state['settings'].models)}",
            param="model",
        )
    return _model(model)


@router.get("/v1/audio/models")
async def list_audio_models(state: StateDep) -> dict[str, Any]:
    """List the models in the shape that Open WebUI asks for."""
    return {"models": [{"id": name, "name": name} for name in state["settings"].models]}


@router.get("/v1/audio/voices")
async def list_voices(state: StateDep, *, legacy: bool = False) -> dict[str, Any]:
    """List the voices of all models; with `legacy` their names alone, as some clients want."""
    voices = [_voice(voice) for voice in await _voices(state)]
    return {"voices": [voice["id"] for voice in voices] if legacy else voices}


@router.get("/v1/audio/voices/{voice}")
async def retrieve_voice(voice: str, state: StateDep) -> dict[str, Any]:
    """Describe one voice, of the first model that has it."""
    voices = await _voices(state)
    for known in voices:
        if known.id == voice:
            return _voice(known)
    raise UnknownVoiceError.among(voice, [known.id for known in voices])


async def _voices(state: State) -> list[Voice]:
    return [
        voice
        for model in state["settings"].models
        for voice in await state["synthesizer"].voices(model, is_fresh=True)
    ]


def _voice(voice: Voice) -> dict[str, Any]:
    return {
        "id": voice.id,
        "name": voice.id,
        "object": "audio.voice",
        "model": voice.model,
        "language": voice.language,
    }
