"""What Triton's and gRPC's errors mean: one table from status and words to SpeechError.

Triton reports most errors inside the stream as text without a code, and uses UNAVAILABLE for
very different things, so the words decide. Each row was seen on a real server (2.51).
"""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from gateway.errors import (
    BackendFailedError,
    BackendTimeoutError,
    BackendUnavailableError,
    InvalidRequestError,
    MisconfiguredError,
    NoConnectionError,
    OverloadedError,
    SpeechError,
)
from speech_wire import INVALID_INPUT

ANY = None
CONNECT_TIMEOUT_WORDS = (
    "attempt timed out before receiving SETTINGS",
    "connect() timed out",
    "tcp handshaker shutdown",
)
"""gRPC's (1.85) for an attempt to connect that ran out of time, after and within TCP's part."""


@dataclass(frozen=True, slots=True)
class Row:
    """An error with this status (ANY: whatever) and these words is that SpeechError."""

    code: grpc.StatusCode | None
    words: str
    error: type[SpeechError]
    message: str


TABLE = (
    Row(ANY, "Exceeds maximum queue size", OverloadedError, "Triton's queue is full"),
    Row(ANY, "Request timeout expired", BackendUnavailableError, "Triton's queue was too slow"),
    Row(
        ANY,
        "This protocol is restricted",
        MisconfiguredError,
        "Triton refuses the gateway: its restricted protocols need a key",
    ),
    Row(
        ANY,
        "has no available versions",
        BackendUnavailableError,
        "the model is being unloaded or its Triton is shutting down",
    ),
    Row(ANY, "is not healthy", BackendUnavailableError, "the model's process has died"),
    Row(ANY, "is not found", MisconfiguredError, "Triton does not have this model"),
    Row(grpc.StatusCode.INVALID_ARGUMENT, "", MisconfiguredError, "Triton refused the request"),
    Row(grpc.StatusCode.UNIMPLEMENTED, "", MisconfiguredError, "this is no Triton that streams"),
    Row(grpc.StatusCode.UNAUTHENTICATED, "", MisconfiguredError, "Triton wants credentials"),
    Row(grpc.StatusCode.PERMISSION_DENIED, "", MisconfiguredError, "Triton refuses the gateway"),
    Row(grpc.StatusCode.NOT_FOUND, "", MisconfiguredError, "Triton does not have this model"),
    Row(grpc.StatusCode.DEADLINE_EXCEEDED, "", BackendTimeoutError, "the deadline has passed"),
    Row(grpc.StatusCode.RESOURCE_EXHAUSTED, "", OverloadedError, "Triton is out of resources"),
    *(
        Row(grpc.StatusCode.UNAVAILABLE, words, NoConnectionError, "no connection in time")
        for words in CONNECT_TIMEOUT_WORDS
    ),
    Row(grpc.StatusCode.UNAVAILABLE, "", BackendUnavailableError, "Triton cannot be reached"),
    Row(ANY, "", BackendFailedError, "the speech model failed"),
)


def classify(code: grpc.StatusCode | None, words: str) -> SpeechError:
    """Return the SpeechError for a gRPC status or, with `code` None, an in-stream message.

    Only what a model marks as the caller's fault is shown to the caller; other words may hold
    paths and tracebacks and go into `detail`.
    """
    if code is None and INVALID_INPUT in words:
        return InvalidRequestError(words.split(INVALID_INPUT, 1)[1], param="input")
    row = next(r for r in TABLE if r.code in (ANY, code) and r.words in words)
    detail = f"{code.name} {words}" if code else words
    return row.error(row.message, detail=detail)
