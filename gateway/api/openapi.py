"""What the OpenAPI page says of speech: requests, audio, errors, each with an example."""

from __future__ import annotations

from typing import Any

from gateway.api.envelope import error_body
from gateway.api.schemas import ErrorBody
from gateway.audio.encoders import MEDIA_TYPES
from gateway.errors import (
    BackendFailedError,
    BackendTimeoutError,
    BackendUnavailableError,
    InvalidRequestError,
    MisconfiguredError,
    OverloadedError,
    RequestTooLargeError,
    SpeechError,
    UnauthenticatedError,
    UnknownModelError,
)

REQUESTS: dict[str, Any] = {
    "mp3": {
        "summary": "OpenAI's names: an mp3, streamed",
        "value": {"model": "tts-1", "voice": "alloy", "input": "Hello, this is a test."},
    },
    "wav": {
        "summary": "A WAV of known length",
        "value": {
            "model": "hibari",
            "voice": "heart",
            "input": "Hello, this is a test.",
            "response_format": "wav",
            "stream": False,
        },
    },
    "events": {
        "summary": "Server-sent events with 24 kHz PCM, a little faster",
        "value": {
            "model": "hibari",
            "voice": "heart",
            "input": "Hello, this is a test.",
            "response_format": "pcm",
            "stream_format": "sse",
            "speed": 1.2,
        },
    },
    "text": {
        "summary": "A text spoken exactly as it is written, with long pauses",
        "value": {
            "model": "hibari",
            "voice": "heart",
            "input": "One. Two. Three.",
            "text_options": {"sanitize": False, "normalize": False, "pause_seconds": 0.5},
        },
    },
}
EVENTS = (
    'data: {"type": "speech.audio.delta", "audio": "AAAB"}\n\n'
    'data: {"type": "speech.audio.done", "usage": '
    '{"input_tokens": 22, "output_tokens": 88, "total_tokens": 110}}\n\n'
)
EXAMPLES: tuple[tuple[SpeechError, str], ...] = (
    (
        InvalidRequestError("'speed': Input should be less than or equal to 4", param="speed"),
        "The request cannot be served as it is; `param` names the field",
    ),
    (UnauthenticatedError("no API key was given"), "A key is needed, or this one is not known"),
    (UnknownModelError.among("tts-9", ["hibari", "tts-1"]), "No such model here"),
    (RequestTooLargeError("the body is larger than 1048576 bytes"), "The body is too large"),
    (
        OverloadedError("all 16 streams are busy and none came free within 0.5 s"),
        "Too many requests; `retry-after` and `retry-after-ms` say when to come back",
    ),
    (MisconfiguredError("Triton's model 'x' is no speech model"), "An operator must act"),
    (BackendFailedError("the model failed"), "The model failed before its first audio"),
    (BackendUnavailableError("Triton cannot be reached"), "No Triton; try again later"),
    (BackendTimeoutError("Triton was silent for 30 s"), "No audio came in time"),
)
ERRORS: dict[int | str, dict[str, Any]] = {
    **{
        error.status: {
            "model": ErrorBody,
            "description": description,
            "content": {"application/json": {"example": error_body(error)}},
        }
        for error, description in EXAMPLES
    },
    # Without this FastAPI would promise its own 422, which is never sent.
    "default": {"model": ErrorBody, "description": "Any other error"},
}
SPEECH: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The speech, streamed as it is made",
        "headers": {
            "x-sample-rate": {"schema": {"type": "integer"}, "description": "In Hz"},
            "x-speech-ignored": {
                "schema": {"type": "string"},
                "description": "Fields of the request that were not used",
            },
        },
        "content": {
            **{kind: {"schema": {"type": "string", "format": "binary"}} for kind in MEDIA_TYPES},
            "text/event-stream": {"schema": {"type": "string"}, "example": EVENTS},
        },
    },
    **ERRORS,
}
