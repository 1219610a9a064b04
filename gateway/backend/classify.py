"""What Triton's and gRPC's errors mean: from status and words to SpeechError, and what follows.

Triton reports most errors inside the stream as text without a code, and uses UNAVAILABLE for
very different things, so the words decide. Each row was seen on a real server (2.51).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

import grpc
import grpc.aio

from gateway.errors import (
    BackendFailedError,
    BackendTimeoutError,
    BackendUnavailableError,
    Fault,
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
NOT_OURS = "Triton's certificate does not prove that it is ours"
OTHER_AUTHORITY = (
    f"{NOT_OURS}: an authority signed it that is not known here (SPEECH_TRITON_CA, or with "
    "SPEECH_TRITON_TLS=system those of this machine)"
)
VERIFY_FAILED = "CERTIFICATE_VERIFY_FAILED"
UNTRUSTED = (
    (f"{VERIFY_FAILED}: certificate has expired", f"{NOT_OURS}: it has expired"),
    (
        f"{VERIFY_FAILED}: certificate is not yet valid",
        f"{NOT_OURS}: it is not valid yet, by the clock of this machine",
    ),
    (f"{VERIFY_FAILED}: unsupported certificate purpose", f"{NOT_OURS}: it is not for a server"),
    (f"{VERIFY_FAILED}: unable to get local issuer", OTHER_AUTHORITY),
    (f"{VERIFY_FAILED}: self", OTHER_AUTHORITY),
    (VERIFY_FAILED, f"{NOT_OURS} (SPEECH_TRITON_TLS, SPEECH_TRITON_CA)"),
    (
        "Hostname Verification Check failed",
        f"{NOT_OURS}: it is for another name than the host or SPEECH_TRITON_SERVER_NAME",
    ),
    ("missing selected ALPN", "what answers at Triton's address has TLS, but no HTTP/2"),
    ("WRONG_VERSION_NUMBER", "what answers at Triton's address has no TLS (SPEECH_TRITON_TLS)"),
)
"""gRPC's words (1.85) for a server that cannot prove who it is, and ours."""
HUNG_UP = re.compile("failed to connect.*Socket closed")
"""gRPC's for a server that took the connection and closed it, as one does that wants more of it."""
WANTS_TLS = "Triton hangs up on whoever connects: it may want TLS (SPEECH_TRITON_TLS)"
WANTS_A_CERTIFICATE = (
    "Triton hangs up once TLS is there: it may want another certificate than it is shown "
    "(SPEECH_TRITON_CLIENT_CERT, SPEECH_TRITON_CLIENT_KEY)"
)


@dataclass(frozen=True, slots=True)
class Row:
    """An error with this status (ANY: whatever) and these words is that SpeechError."""

    code: grpc.StatusCode | None
    words: str
    error: type[SpeechError]
    message: str
    fault: Fault | None = None
    """Where it is another than the error's usual one."""


TABLE = (
    Row(ANY, "Exceeds maximum queue size", OverloadedError, "Triton's queue is full"),
    Row(
        ANY,
        "Request timeout expired",
        BackendUnavailableError,
        "Triton's queue was too slow",
        "busy",
    ),
    Row(
        ANY,
        "This protocol is restricted",
        MisconfiguredError,
        "Triton refuses the gateway: its restricted protocols need a key that the gateway does not "
        "send, or another than it sends (SPEECH_TRITON_METADATA)",
    ),
    Row(
        ANY,
        "has no available versions",
        BackendUnavailableError,
        "the model is being unloaded or its Triton is shutting down",
        "draining",
    ),
    Row(ANY, "is not healthy", BackendUnavailableError, "the model's process has died", "died"),
    # It had the model when it was last probed, and others may still have it.
    Row(ANY, "is not found", MisconfiguredError, "Triton does not have this model", "draining"),
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
    *(
        Row(grpc.StatusCode.UNAVAILABLE, words, BackendUnavailableError, message, "untrusted")
        for words, message in UNTRUSTED
    ),
    Row(grpc.StatusCode.UNAVAILABLE, "", BackendUnavailableError, "Triton cannot be reached"),
    Row(ANY, "", BackendFailedError, "the speech model failed"),
)


def classify(code: grpc.StatusCode | None, words: str) -> SpeechError:
    """Return the SpeechError for a gRPC status or, with `code` None, an in-stream message.

    Only what a model marks as the caller's fault is shown to the caller. Other words may hold
    paths and tracebacks and go into `detail`; what a model says may quote the text, too, and goes
    into `said`.
    """
    if code is None and INVALID_INPUT in words:
        return InvalidRequestError(words.split(INVALID_INPUT, 1)[1], param="input")
    row = next(r for r in TABLE if r.code in (ANY, code) and r.words in words)
    error = row.error(row.message, detail=f"{code.name} {words}" if code else "")
    error.said = "" if code else words
    error.fault = row.fault or error.fault
    return error


def classify_error(error: grpc.aio.AioRpcError | grpc.aio.UsageError) -> SpeechError:
    """Return the SpeechError for what one of gRPC's calls has raised."""
    if isinstance(error, grpc.aio.AioRpcError):
        return classify(error.code(), error.details() or "")
    # Its Triton left while it was asked one thing after the other.
    return BackendUnavailableError("the channel to Triton is closed")


class Elsewhere(Enum):
    """Whether a request that failed here may be tried on another Triton."""

    NO = "no"
    ONCE = "once"
    """The model had it, so it may be the request's own doing."""
    ALL = "all"
    """No model had it."""


class Effect(Enum):
    """What a failed call does to the Triton that failed."""

    NONE = "none"
    STRIKE = "strike"
    """Several in a row eject it."""
    EJECT = "eject"
    DRAIN = "drain"


@dataclass(frozen=True, slots=True)
class Consequence:
    """What follows of a fault."""

    effect: Effect
    elsewhere: Elsewhere


CONSEQUENCES: dict[Fault, Consequence] = {
    "": Consequence(Effect.NONE, Elsewhere.NO),
    "refused": Consequence(Effect.NONE, Elsewhere.NO),
    "busy": Consequence(Effect.NONE, Elsewhere.ONCE),
    "failed": Consequence(Effect.STRIKE, Elsewhere.ONCE),
    "silent": Consequence(Effect.STRIKE, Elsewhere.ONCE),
    "died": Consequence(Effect.EJECT, Elsewhere.ONCE),
    "draining": Consequence(Effect.DRAIN, Elsewhere.ALL),
    "lost": Consequence(Effect.EJECT, Elsewhere.ALL),
    "untrusted": Consequence(Effect.EJECT, Elsewhere.ALL),
}
