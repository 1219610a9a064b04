"""Everything that can be wrong with a request or behind it.

SpeechError
├── InvalidRequestError        400  the caller's mistake; `param` names the field
│   ├── UnknownModelError      404
│   ├── UnknownVoiceError      400  as OpenAI answers
│   ├── RequestTooSlowError    408
│   ├── RequestTooLargeError   413
│   └── UnauthenticatedError   401  no API key, or none that is known
├── OverloadedError            429  no permit in time, a caller's limit, or Triton's queue is full
├── MisconfiguredError         500  gateway and Triton do not fit; an operator must act
├── BackendFailedError         502  the model failed or broke off
├── BackendUnavailableError    503  no Triton, or it is going away
│   └── NoConnectionError      503  not even a connection within the time for one
├── BackendTimeoutError        504  nothing came in time
└── ListenerTooSlowError       504  the listener had not taken the audio in time

Each carries status, type, code and param as plain values; `api.envelope` turns them into
OpenAI's error body. `detail` is for the log and never leaves the service.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Sequence

RETRY_SECONDS = 1.0
Refusal: TypeAlias = Literal["queue_full", "wait_exceeded", "key_concurrency", "key_rate", "triton"]
REFUSALS: tuple[Refusal, ...] = get_args(Refusal)
Code: TypeAlias = Literal[
    "backend_failed",
    "backend_timeout",
    "backend_unavailable",
    "internal_error",
    "invalid_api_key",
    "invalid_json",
    "invalid_value",
    "listener_too_slow",
    "misconfigured",
    "missing_required_parameter",
    "model_not_found",
    "no_audio",
    "overloaded",
    "rate_limit_exceeded",
    "request_timeout",
    "request_too_large",
    "string_above_max_length",
    "unknown_url",
    "voice_not_found",
]
CODES: tuple[Code, ...] = get_args(Code)
"""Every `code` of an error body; they are label values too, so there are no others."""
Fault: TypeAlias = Literal[
    "", "busy", "refused", "failed", "died", "silent", "draining", "lost", "untrusted"
]
"""What an error says of the Triton that it came from; "" nothing."""
FAULTS: tuple[Fault, ...] = get_args(Fault)


class SpeechError(Exception):
    """An error with the status and the words that the caller gets."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: Code = "internal_error"
    retry_after_seconds: float | None = None
    fault: Fault = ""
    said: str = ""
    """The model's own words, which may quote the text: for debugging alone."""

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: Code | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code or self.code
        self.detail = detail

    def within(self, words: str) -> SpeechError:
        """Return the same error with these words before its own."""
        named = type(self)(f"{words}: {self.message}", detail=self.detail)
        named.fault = self.fault
        return named

    def bare(self) -> SpeechError:
        """Return it, fit to be kept: without the frames that it came through, and its causes.

        Frames hold what was at hand there, a call to Triton say, and often the error itself, so
        that only the garbage collector would free them.
        """
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


class InvalidRequestError(SpeechError):
    """The request cannot be served as it is; trying again will not help."""

    status = 400
    type = "invalid_request_error"
    code: Code = "invalid_value"


class UnknownModelError(InvalidRequestError):
    """No model of that name is served here."""

    status = 404
    code = "model_not_found"

    @classmethod
    def among(cls, given: str, known: Sequence[str]) -> UnknownModelError:
        """Return the error for a name that is none of the known ones."""
        message = f"model {given!r} is not served here; there are {list(known)}; GET /v1/models"
        return cls(message, param="model")


class UnknownVoiceError(InvalidRequestError):
    """No voice of that name; the message names the nearest there are, or all."""

    code = "voice_not_found"

    @classmethod
    def among(cls, given: str, known: Sequence[str]) -> UnknownVoiceError:
        """Return the error for a name that is none of the known ones."""
        near = get_close_matches(given, known, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {list(known)}"
        message = f"voice {given!r} is not known here; {hint}; GET /v1/audio/voices lists all"
        return cls(message, param="voice")


class RequestTooLargeError(InvalidRequestError):
    """The body is larger than the service reads."""

    status = 413
    code = "request_too_large"


class RequestTooSlowError(InvalidRequestError):
    """The body did not arrive in time."""

    status = 408
    code = "request_timeout"


class UnauthenticatedError(InvalidRequestError):
    """There is no API key in the request, or none that is known here."""

    status = 401
    code = "invalid_api_key"


class OverloadedError(SpeechError):
    """There is no room for the request now; come back in a moment. `reason` says whose limit."""

    status = 429
    type = "rate_limit_error"
    code = "overloaded"
    fault: Fault = "busy"

    def __init__(
        self,
        message: str,
        *,
        reason: Refusal = "triton",
        retry_after_seconds: float = RETRY_SECONDS,
        **words: Any,
    ) -> None:
        super().__init__(message, **words)
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds


class MisconfiguredError(SpeechError):
    """The gateway's settings and the Triton behind it do not fit each other."""

    code = "misconfigured"
    fault: Fault = "refused"


class BackendFailedError(SpeechError):
    """The model failed, or its stream ended without Triton's FINAL."""

    status = 502
    code = "backend_failed"
    fault: Fault = "failed"


class BackendUnavailableError(SpeechError):
    """Triton cannot be reached, is going away, or its model is not there at the moment."""

    status = 503
    code = "backend_unavailable"
    fault: Fault = "lost"
    retry_after_seconds = RETRY_SECONDS


class NoConnectionError(BackendUnavailableError):
    """What is at Triton's address did not take a connection in time."""


class ListenerTooSlowError(SpeechError):
    """There was audio, and the deadline passed while the listener did not take it."""

    status = 504
    code = "listener_too_slow"


class BackendTimeoutError(SpeechError):
    """The next audio, or the end, did not come in time."""

    status = 504
    code = "backend_timeout"
    fault: Fault = "silent"
