"""The one place where everything meets."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer

from gateway.api import catalogue, envelope, health, speech
from gateway.api.keys import RequireKey
from gateway.api.limits import BodyLimit
from gateway.api.request_id import RequestId
from gateway.lifespan import make_lifespan
from gateway.speech.aliases import load_aliases

if TYPE_CHECKING:
    from gateway.settings import Settings
    from gateway.speech.synthesizer import Synthesizer


def create_app(settings: Settings, synthesizer: Synthesizer | None = None) -> FastAPI:
    """Return the service; without a synthesizer it speaks through the Triton of the settings.

    Raises SettingsError for a setting that only shows here that it is wrong.
    """
    aliases = load_aliases(settings.aliases_file, settings.models)
    keys = settings.known_keys
    app = FastAPI(
        title="speech-gateway",
        version=version("speech-gateway"),
        lifespan=make_lifespan(settings, aliases, synthesizer),
        # For the button on the page of /docs; RequireKey is what asks for the key.
        dependencies=[Depends(HTTPBearer(auto_error=False))] if keys else [],
    )
    envelope.install(app)
    for router in (speech.router, catalogue.router, health.router):
        app.include_router(router)
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    app.add_middleware(RequireKey, keys=keys, open_without_key=settings.open_without_key)
    app.add_middleware(RequestId)
    return app
