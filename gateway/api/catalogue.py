"""GET /v1/models and /v1/audio/voices: what a caller may name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from gateway.api.deps import State, StateDep
from gateway.errors import SpeechError, UnknownModelError, UnknownVoiceError

if TYPE_CHECKING:
    from gateway.speech.types import Voice

router = APIRouter(tags=["catalogue"])

CREATED = 1_795_996_800
"""OpenAI's clients want a number here; ours is the day of the first version, 2026-11-30."""


@router.get("/v1/models")
async def list_models(state: StateDep) -> dict[str, Any]:
    """List the models, then their aliases."""
    return {"object": "list", "data": [_model(name, state) for name in _models(state)]}


@router.get("/v1/models/{model}")
async def retrieve_model(model: str, state: StateDep) -> dict[str, Any]:
    """Describe one model, with its voices."""
    if model not in _models(state):
        raise UnknownModelError.among(model, _models(state))
    target = state["aliases"].model(model)
    return _model(model, state) | {"voices": await _voices(state, target)}


@router.get("/v1/audio/models")
async def list_audio_models(state: StateDep) -> dict[str, Any]:
    """List the models in the shape that Open WebUI asks for."""
    return {"models": [{"id": name, "name": name} for name in _models(state)]}


@router.get("/v1/audio/voices")
async def list_voices(state: StateDep, *, legacy: bool = False) -> dict[str, Any]:
    """List the voices of all models and their aliases; with `legacy` their names alone.

    A model that cannot be asked is left out, /readyz says why; if none can, that is the error.
    """
    voices = await _all_voices(state)
    return {"voices": [voice["id"] for voice in voices] if legacy else voices}


@router.get("/v1/audio/voices/{voice}")
async def retrieve_voice(voice: str, state: StateDep) -> dict[str, Any]:
    """Describe one voice, of the first model that has it."""
    voices = await _all_voices(state)
    for known in voices:
        if known["id"] == voice:
            return known
    raise UnknownVoiceError.among(voice, [known["id"] for known in voices])


async def _all_voices(state: State) -> list[dict[str, Any]]:
    voices: list[dict[str, Any]] = []
    errors: list[SpeechError] = []
    for model in state["settings"].models:
        try:
            voices += await _voices(state, model)
        except SpeechError as error:
            errors.append(error)
    if len(errors) == len(state["settings"].models):
        raise errors[0]
    return voices


def _models(state: State) -> list[str]:
    return [*state["settings"].models, *state["aliases"].models]


def _model(name: str, state: State) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": CREATED,
        "owned_by": "speech-gateway",
        "alias_of": state["aliases"].models.get(name),
    }


async def _voices(state: State, model: str) -> list[dict[str, Any]]:
    listed = await state["voices"].listed(model)
    return [_voice(name, voice) for name, voice in listed.items()]


def _voice(name: str, voice: Voice) -> dict[str, Any]:
    return {
        "id": name,
        "name": name,
        "object": "audio.voice",
        "model": voice.model,
        "language": voice.language,
        "alias_of": None if name == voice.id else voice.id,
    }
