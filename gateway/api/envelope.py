"""The one translation of everything that goes wrong into OpenAI's error body."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from gateway.errors import InvalidRequestError, MisconfiguredError, SpeechError
from gateway.telemetry.logging import log_refusal

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.types import Scope

    from gateway.errors import Code

MAX_SHOWN_CHARACTERS = 80
REQUEST_ID_HEADER = "x-request-id"


def error_body(error: SpeechError) -> dict[str, Any]:
    """Return OpenAI's error body."""
    return {
        "error": {
            "message": error.message,
            "type": error.type,
            "param": error.param,
            "code": error.code,
        }
    }


def error_response(error: SpeechError) -> Response:
    """Return the HTTP response of an error: status, hints for a retry, OpenAI's body."""
    headers = {}
    if error.retry_after_seconds is not None:
        headers["retry-after"] = str(math.ceil(error.retry_after_seconds))
        # Rounded up: who comes a moment too early is refused again.
        headers["retry-after-ms"] = str(math.ceil(error.retry_after_seconds * 1000))
    # ASCII, because a caller's lone surrogate cannot be sent as UTF-8.
    content = json.dumps(error_body(error), ensure_ascii=True)
    if isinstance(error, MisconfiguredError):
        # OpenAI's SDKs repeat a 500; an operator has to act first.
        headers["x-should-retry"] = "false"
    return Response(content, error.status, headers, media_type="application/json")


def refuse(error: SpeechError, scope: Scope, status: int | None = None) -> Response:
    """Return the response of an error, once it is logged and counted.

    Of an accepted request its record does both. `status` stands for the error's own.
    """
    state = scope.get("state", {})
    response = error_response(error)
    response.status_code = status or error.status
    if not state.get("is_accepted"):
        asked = {
            "request_id": state.get("request_id"),
            "caller": state.get("caller"),
            "method": scope.get("method"),
            # An unknown one shows what is wrong with a base URL.
            "path": _cut(scope.get("path", "")),
        }
        log_refusal(error, response.status_code, asked)
        if metrics := state.get("metrics"):
            metrics.refused(error.code)
    return response


def install(app: FastAPI) -> None:
    """Make every error that the app foresees leave in OpenAI's shape."""
    app.add_exception_handler(SpeechError, _speech_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)


async def _speech_error(request: Request, error: Any) -> Response:
    return refuse(error, request.scope)


async def _validation_error(request: Request, error: Any) -> Response:
    return refuse(explain(error.errors()[0]), request.scope)


async def _http_error(request: Request, error: Any) -> Response:
    if error.status_code == InvalidRequestError.status:
        return refuse(unreadable(), request.scope)
    docs = f"{request.scope.get('root_path', '')}/docs"
    message = f"{request.method} {request.url.path}: {error.detail}; GET {docs} lists what is here"
    unknown = InvalidRequestError(message, code="unknown_url")
    response = refuse(unknown, request.scope, error.status_code)
    response.headers.update(error.headers or {})
    return response


async def unexpected_error(request: Request, error: Exception) -> Response:
    """Answer an error of our own; Starlette then raises it again, so the server logs it."""
    words = "an internal error; the service's log has the details"
    return refuse(SpeechError(words, detail=repr(error)), request.scope)


def unreadable() -> InvalidRequestError:
    """Return the error of a body that is not even wrong JSON."""
    message = (
        "the body cannot be read as JSON: it must be UTF-8, without content-encoding, not "
        "nested too deep, its numbers of ordinary length"
    )
    return InvalidRequestError(message, code="invalid_json")


def explain(problem: Any) -> InvalidRequestError:
    """Turn pydantic's first complaint into words that name the field, what came and what fits."""
    location = [str(part) for part in problem["loc"] if part not in ("body", "query")]
    if problem["type"] == "json_invalid":
        reason = problem.get("ctx", {}).get("error", "")
        return InvalidRequestError(f"the body is not valid JSON: {reason}", code="invalid_json")
    if not location:
        return InvalidRequestError(
            "the body must be a JSON object sent with 'content-type: application/json'",
            code="invalid_json",
        )
    # A union reports as voice.str, voice.VoiceReference: the field is what the caller knows.
    field = location[0]
    code: Code = "missing_required_parameter" if problem["type"] == "missing" else "invalid_value"
    # A part of a field is named with it; a union's parts ("voice.str") are pydantic's own words.
    named = ".".join(location) if field == "text_options" else field
    words = f"'{named}': {problem['msg']}"
    if problem["type"] != "missing":
        words += f"; given: {_shown(problem['input'])}"
    return InvalidRequestError(words, param=field, code=code)


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = ascii(value)
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}…"
