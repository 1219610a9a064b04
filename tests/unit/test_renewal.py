"""Certificates that a Triton does not take are shown to it seldom; others at once."""

from __future__ import annotations

from gateway.backend.renewal import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Renewal
from gateway.backend.security import Security


def test_the_pause_doubles_to_its_longest_and_begins_anew_with_others() -> None:
    renewal, ours, theirs = Renewal(), Security(), Security()
    now, pauses = 0.0, []

    assert renewal.is_due(ours, now)
    for _ in range(5):
        renewal.failed(now)
        pause = renewal.due_at_seconds - now
        assert not renewal.is_due(ours, now + pause - 0.1)
        assert renewal.is_due(ours, now + pause)
        pauses.append(pause)
        now += pause

    assert pauses == [10.0, 20.0, 40.0, 60.0, 60.0]
    assert (pauses[0], pauses[-1]) == (FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
    renewal.failed(now)
    assert renewal.is_due(theirs, now)
    renewal.failed(now)
    assert renewal.due_at_seconds - now == FIRST_PAUSE_SECONDS
