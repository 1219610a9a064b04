"""The one place where everything meets."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.errors import ServerErrorMiddleware

from gateway.api import catalogue, envelope, health, replicas, speech
from gateway.api.keys import RequireKey
from gateway.api.limits import BodyLimit
from gateway.api.request_id import RequestId
from gateway.api.root_path import RootPath
from gateway.api.tracing import TraceRequest
from gateway.lifespan import make_lifespan
from gateway.settings import SettingsError
from gateway.speech.aliases import load_aliases
from gateway.speech.voice_file import load_voices

if TYPE_CHECKING:
    from gateway.settings import Settings
    from gateway.speech.synthesizer import Synthesizer
    from gateway.telemetry.tracing import OtlpTracer

EXPOSED_HEADERS = (
    "content-disposition",
    "retry-after",
    "retry-after-ms",
    "www-authenticate",
    "x-channels",
    "x-request-id",
    "x-sample-rate",
    "x-should-retry",
    "x-speech-ignored",
)
"""What a page in a browser may read of our answers, besides content-type and cache-control."""


def create_app(settings: Settings, synthesizer: Synthesizer | None = None) -> FastAPI:
    """Return the service; without a synthesizer it speaks through the Triton of the settings.

    Raises SettingsError for a setting that only shows here that it is wrong.
    """
    aliases = load_aliases(settings.aliases_file, settings.models)
    voices = load_voices(settings.voices_file, settings.models)
    tracer = _tracer(settings.otlp_endpoint)
    app = FastAPI(
        title="speech-gateway",
        version=version("speech-gateway"),
        lifespan=make_lifespan(settings, aliases, voices, synthesizer, tracer),
        # For the button on the page of /docs; RequireKey is what asks for the key.
        dependencies=[Depends(HTTPBearer(auto_error=False))] if settings.known_keys else [],
    )
    envelope.install(app)
    for router in (speech.router, catalogue.router, health.router, replicas.router):
        app.include_router(router)
    _add_middleware(app, settings, tracer)
    return app


def _tracer(endpoint: str) -> OtlpTracer | None:
    if not endpoint:
        return None
    try:
        from gateway.telemetry.tracing import OtlpTracer  # noqa: PLC0415  It needs an extra.
    except ImportError as error:
        raise SettingsError(
            f"SPEECH_OTLP_ENDPOINT is set, but tracing is not installed ({error}): "
            "pip install 'speech-gateway[tracing]'"
        ) from error
    return OtlpTracer(endpoint)


def _add_middleware(app: FastAPI, settings: Settings, tracer: OtlpTracer | None) -> None:
    """Add what lies around the routes, from the inside out."""
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    if tracer is not None:  # Inside the keys: nobody without one writes spans.
        app.add_middleware(TraceRequest, tracer=tracer)
    app.add_middleware(
        RequireKey, keys=settings.known_keys, open_without_key=settings.open_without_key
    )
    # Starlette has one of its own outside of all that is added, where an answer would have
    # neither its id nor what lets a browser read it.
    app.add_middleware(ServerErrorMiddleware, handler=envelope.unexpected_error)
    app.add_middleware(RequestId)
    if settings.root_path:
        app.add_middleware(RootPath, root_path=settings.root_path)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=("GET", "HEAD", "POST"),
            # All, since OpenAI's SDK sends a dozen of its own. No credentials: a key is none.
            allow_headers=("*",),
            expose_headers=EXPOSED_HEADERS,
        )
