"""Asks for an API key before anything of a request is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from gateway.api.envelope import refuse
from gateway.errors import UnauthenticatedError
from gateway.keys import find_key
from gateway.speech.types import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from gateway.keys import ApiKey

ALWAYS_OPEN = ("/livez", "/readyz", "/health")
OPEN_PATHS = {
    "lists": ("/v1/models", "/v1/audio/models", "/v1/audio/voices"),
    "docs": ("/docs", "/redoc", "/openapi.json"),
    "metrics": ("/metrics", "/v1/replicas"),
}
"""What each word of SPEECH_OPEN_WITHOUT_KEY opens, with all below it, for reading only."""
DENIAL = "websocket.http.response"


class RequireKey:
    """ASGI middleware: sets `request.state.caller` to the key's name, or answers 401.

    Without keys everyone comes in and is "anonymous". The body of a refused request is not
    read: the server throws away what of it still comes.
    """

    def __init__(
        self, app: ASGIApp, keys: Sequence[ApiKey], open_without_key: Collection[str]
    ) -> None:
        self._app = app
        self._keys = keys
        groups = (OPEN_PATHS[word] for word in open_without_key)
        self._open_paths = (*ALWAYS_OPEN, *(path for group in groups for path in group))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its caller's name, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            caller = ANONYMOUS if self._is_open(scope) else self._caller(scope)
        except UnauthenticatedError as error:
            await _refuse(error, scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = caller
        await self._app(scope, receive, send)

    def _is_open(self, scope: Scope) -> bool:
        if not self._keys:
            return True
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        is_reading = scope.get("method") in ("GET", "HEAD")
        return is_reading and any(f"{path}/".startswith(f"{open_}/") for open_ in self._open_paths)

    def _caller(self, scope: Scope) -> str:
        scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
        if not scheme:
            raise UnauthenticatedError(
                "no API key was given; send one in the header 'Authorization: Bearer YOUR_KEY' "
                "(OpenAI's SDKs: api_key)"
            )
        if scheme.lower() != "bearer" or not given.strip():
            raise UnauthenticatedError(
                "the Authorization header cannot be read; it must be "
                "'Authorization: Bearer YOUR_KEY'"
            )
        key = find_key(self._keys, given.strip().encode("latin-1"))
        if key is None:
            raise UnauthenticatedError(
                "incorrect API key provided; ask whoever runs this service for one (it knows "
                "those of SPEECH_API_KEYS and SPEECH_API_KEYS_FILE)"
            )
        return key.name


async def _refuse(error: UnauthenticatedError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket" and DENIAL not in scope.get("extensions", {}):
        await send({"type": "websocket.close"})  # Before it is accepted: the server answers 403.
        return
    response = refuse(error, scope)
    response.headers["www-authenticate"] = "Bearer"
    await response(scope, receive, send)
