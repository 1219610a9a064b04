"""What Triton's and gRPC's errors become: nothing is lost, nothing is leaked."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest

from gateway.backend.classify import CONSEQUENCES, TABLE, Row, classify, classify_error
from gateway.errors import (
    FAULTS,
    BackendFailedError,
    BackendTimeoutError,
    BackendUnavailableError,
    InvalidRequestError,
    MisconfiguredError,
    OverloadedError,
    SpeechError,
)

INSIDE = "/opt/models/secret.py, line 7"
CODES = [*grpc.StatusCode, None]


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name if code else "in-stream")
def test_every_status_is_an_error_that_tells_nothing_of_the_inside(
    code: grpc.StatusCode | None,
) -> None:
    error = classify(code, INSIDE)

    assert isinstance(error, SpeechError)
    assert error.status >= 400
    assert error.message
    assert INSIDE not in error.message
    assert INSIDE in (error.detail if code else error.said)
    assert INSIDE not in (error.said if code else error.detail)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.code}-{row.words}")
def test_every_row_can_be_reached(row: Row) -> None:
    error = classify(row.code, f"[StatusCode] {row.words} for model 'x'")

    assert type(error) is row.error
    assert error.message == row.message
    assert error.fault == (row.fault or row.error.fault)
    assert error.fault in CONSEQUENCES


@pytest.mark.parametrize(
    "row", [r for r in TABLE if r.words and not r.code], ids=lambda row: row.words
)
@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name if code else "in-stream")
def test_words_beat_the_status(row: Row, code: grpc.StatusCode | None) -> None:
    error = classify(code, f"before {row.words} after")

    assert error.message == row.message


@pytest.mark.parametrize(
    ("code", "words", "expected"),
    [
        (grpc.StatusCode.UNAVAILABLE, "Socket closed", BackendUnavailableError),
        (grpc.StatusCode.UNAVAILABLE, "recvmsg:Connection timed out", BackendUnavailableError),
        (None, "the model's own LLM: connect() timed out", BackendFailedError),
        (grpc.StatusCode.UNAVAILABLE, "This protocol is restricted", MisconfiguredError),
        (grpc.StatusCode.NOT_FOUND, "unknown model: 'x' is not found", MisconfiguredError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", BackendTimeoutError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "", OverloadedError),
        (grpc.StatusCode.INTERNAL, "Request timeout expired", BackendUnavailableError),
        (grpc.StatusCode.UNKNOWN, "", BackendFailedError),
        (None, "the model failed: ValueError", BackendFailedError),
        (None, "Stub process 'x_0' is not healthy.", BackendUnavailableError),
        (None, "Exceeds maximum queue size", OverloadedError),
    ],
)
def test_what_real_tritons_say(
    code: grpc.StatusCode | None, words: str, expected: type[SpeechError]
) -> None:
    assert type(classify(code, words)) is expected


def test_what_a_model_marks_as_the_callers_fault_is_shown_without_what_stands_before() -> None:
    error = classify(None, f"{INSIDE}: invalid_input: the text has no letters")

    assert type(error) is InvalidRequestError
    assert error.message == "the text has no letters"
    assert error.param == "input"


def test_only_a_model_can_blame_the_caller() -> None:
    error = classify(grpc.StatusCode.INTERNAL, "invalid_input: x")

    assert type(error) is BackendFailedError


@pytest.mark.parametrize(
    ("code", "words", "fault"),
    [
        (None, "Request for unknown model: 'x' has no available versions", "draining"),
        (None, "Exceeds maximum queue size", "busy"),
        (grpc.StatusCode.UNAVAILABLE, "Request timeout expired", "busy"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "", "busy"),
        (grpc.StatusCode.UNAVAILABLE, "This protocol is restricted, expecting", "refused"),
        (grpc.StatusCode.NOT_FOUND, "unknown model: 'x' is not found", "draining"),
        (None, "invalid_input: no words", ""),
        (None, "the model failed: ValueError", "failed"),
        (None, "Stub process 'x_0' is not healthy.", "died"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", "silent"),
        (grpc.StatusCode.UNAVAILABLE, "Socket closed", "lost"),
        (grpc.StatusCode.UNAVAILABLE, "connect() timed out", "lost"),
        (
            grpc.StatusCode.UNAVAILABLE,
            "routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED",
            "untrusted",
        ),
        (
            grpc.StatusCode.UNAVAILABLE,
            "UNAUTHENTICATED: Hostname Verification Check failed.",
            "untrusted",
        ),
        (
            grpc.StatusCode.UNAVAILABLE,
            "Cannot check peer: missing selected ALPN property.",
            "untrusted",
        ),
        (grpc.StatusCode.UNAVAILABLE, "OPENSSL_internal:WRONG_VERSION_NUMBER", "untrusted"),
    ],
)
def test_what_it_says_of_the_triton(code: grpc.StatusCode | None, words: str, fault: str) -> None:
    assert classify(code, words).fault == fault


@pytest.mark.parametrize("words", ["Socket closed", None])
def test_the_error_of_a_call_is_that_of_its_status_and_words(words: str | None) -> None:
    code, nothing = grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata()

    error = classify_error(grpc.aio.AioRpcError(code, nothing, nothing, words))

    assert type(error) is BackendUnavailableError
    assert error.detail == f"UNAVAILABLE {words or ''}"


def test_a_call_on_a_closed_channel_means_that_triton_has_left() -> None:
    error = classify_error(grpc.aio.UsageError("Channel is closed."))

    assert type(error) is BackendUnavailableError
    assert error.message == "the channel to Triton is closed"


def test_every_fault_has_a_consequence_and_no_other_has() -> None:
    assert set(CONSEQUENCES) == set(FAULTS)
