"""Gives each request its span in a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from gateway.api.keys import ALWAYS_OPEN, OPEN_PATHS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from gateway.telemetry.tracing import OtlpTracer

UNTRACED = (*ALWAYS_OPEN, *OPEN_PATHS["metrics"])
"""What machines ask for every few seconds."""


class TraceRequest:
    """ASGI middleware: sets `request.state.span`, which ends when the response has been sent."""

    def __init__(self, app: ASGIApp, tracer: OtlpTracer) -> None:
        self._app = app
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its span."""
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] != "http" or path in UNTRACED:
            await self._app(scope, receive, send)
            return
        status: int | None = None

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        method, request_id = scope["method"], scope["state"]["request_id"]
        with self._tracer.request(method, path, request_id, Headers(scope=scope)) as span:
            scope["state"]["span"] = span
            try:
                await self._app(scope, receive, send_and_note)
            finally:
                span.answered(method, getattr(scope.get("route"), "path", None), status)
