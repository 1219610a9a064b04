"""The log line of a request."""

from __future__ import annotations

import pytest

from fakes.records import Clock, make_record
from gateway.errors import BackendFailedError
from gateway.telemetry.logging import log_record


def test_the_log_line_names_the_caller_in_plain_characters(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO", "speech"):
        log_record(make_record(Clock(), "ali\nce"))

    [line] = caplog.messages
    assert r"caller='ali\nce' model=" in line


def test_the_log_line_has_the_reason_and_never_the_text(caplog: pytest.LogCaptureFixture) -> None:
    record = make_record(Clock())
    record.fail(BackendFailedError("words", detail="line one\nline two"))
    record.close()

    with caplog.at_level("INFO", "speech"):
        log_record(record)

    [line] = caplog.messages
    assert line.startswith(
        "speech.failed request_id=req_1 caller='anonymous' model=hibari voice='heart'"
    )
    assert "error=backend_failed" in line
    assert "\n" not in line
    assert "secret" not in line
