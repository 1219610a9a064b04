"""Whose doing it is that a request breaks off, and what its record then says."""

from __future__ import annotations

import pytest

from fakes.clock import Clock
from fakes.records import make_record
from gateway.errors import BackendFailedError, BackendTimeoutError


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_listener_who_takes_too_long_is_no_failure_of_ours(*, is_whole: bool) -> None:
    record = make_record(Clock())
    record.is_whole = is_whole
    record.received(1.0, 0.5)
    record.sent()

    record.fail(BackendTimeoutError("the request's deadline has passed"))

    assert record.outcome == "cancelled"
    assert record.error is not None
    assert record.error.code == "listener_too_slow"


def test_time_that_runs_out_while_the_model_is_waited_for_is_one() -> None:
    record = make_record(Clock())
    record.received(1.0, 0.5)
    record.sent()
    record.taken()

    record.fail(BackendTimeoutError("the request's deadline has passed"))

    assert record.outcome == "timed_out"


def test_what_broke_off_did_not_end_as_its_last_segment_did() -> None:
    record = make_record(Clock())
    record.received(1.0, 0.5, "stop")

    record.fail(BackendFailedError("boom"))
    record.close()

    assert record.finish_reason is None
