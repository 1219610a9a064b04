"""Lets the service live under a path prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class RootPath:
    """ASGI middleware: puts every path under `root_path`, as ASGI wants it.

    A proxy may have taken the prefix off or left it on, so both are the same from here on.
    """

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self._app = app
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its whole path."""
        if scope["type"] != "lifespan":
            path = scope["path"]
            if not f"{path}/".startswith(f"{self._root_path}/"):
                path = self._root_path + path
            scope = {**scope, "path": path, "root_path": self._root_path}
        await self._app(scope, receive, send)
