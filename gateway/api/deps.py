"""Typed access to what lives longer than a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypedDict, cast

from fastapi import Depends, Request

if TYPE_CHECKING:
    from gateway.settings import Settings
    from gateway.speech.aliases import Aliases
    from gateway.speech.service import SpeechService
    from gateway.speech.synthesizer import Synthesizer
    from gateway.speech.voices import Voices
    from gateway.telemetry.metrics import Metrics


class State(TypedDict):
    """What the lifespan opens; Starlette copies it into every request's state."""

    settings: Settings
    aliases: Aliases
    synthesizer: Synthesizer
    voices: Voices
    service: SpeechService
    metrics: Metrics


def state_of(request: Request) -> State:
    """Return the application's state."""
    return cast("State", request.scope["state"])


async def get_state(request: Request) -> State:
    """Return it; async, since FastAPI sends other functions to a thread."""
    return state_of(request)


StateDep = Annotated[State, Depends(get_state)]
