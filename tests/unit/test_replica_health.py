"""The state of a Triton, by what its probes and calls tell; no time passes but the test's."""

from __future__ import annotations

import pytest

from fakes.clock import Clock
from gateway.backend.classify import CONSEQUENCES, Effect
from gateway.backend.health import (
    DRAIN_SECONDS,
    FIRST_EJECTION_SECONDS,
    FIRST_SHARE,
    LONGEST_EJECTION_SECONDS,
    SILENT_PROBES,
    STRIKES,
    Health,
)
from gateway.errors import FAULTS, BackendUnavailableError, Fault, SpeechError


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    health = Health(clock)
    health.probed(None)
    return health


def error(fault: Fault) -> SpeechError:
    made = BackendUnavailableError("words")
    made.fault = fault
    return made


def fail(health: Health, fault: Fault, times: int = 1, *, may_eject: bool = True) -> str:
    for _ in range(times):
        health.failed(error(fault), may_eject=may_eject)
    return health.state


def test_it_is_ready_once_a_probe_says_so(clock: Clock) -> None:
    health = Health(clock)
    before = health.state
    clock.now += 5
    health.probed(None)
    clock.now += 7

    assert (before, health.state, health.state_seconds) == ("connecting", "ready", 7)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_has_its_consequence(health: Health, fault: Fault) -> None:
    expected = {
        Effect.NONE: "ready",
        Effect.STRIKE: "ready",
        Effect.EJECT: "ejected",
        Effect.DRAIN: "draining",
    }

    assert fail(health, fault) == expected[CONSEQUENCES[fault].effect]


@pytest.mark.parametrize("fault", ["failed", "silent"])
def test_several_strikes_in_a_row_eject(health: Health, fault: Fault) -> None:
    assert fail(health, fault, STRIKES - 1) == "ready"
    health.succeeded()
    assert fail(health, fault, STRIKES - 1) == "ready"
    assert fail(health, fault) == "ejected"
    assert health.ejections == 1


def test_a_lost_one_that_may_not_be_ejected_waits_for_its_probe(health: Health) -> None:
    assert fail(health, "lost", may_eject=False) == "connecting"
    health.probed(None)
    assert (health.state, health.ejections) == ("ready", 0)


@pytest.mark.parametrize("fault", ["failed", "silent", "died"])
def test_others_that_may_not_be_ejected_stay(health: Health, fault: Fault) -> None:
    assert fail(health, fault, 3 * STRIKES, may_eject=False) == "ready"


def test_what_else_was_under_way_when_it_was_ejected_tells_nothing_new(health: Health) -> None:
    fail(health, "lost", 16)

    assert health.ejections == 1


def test_an_ejection_ends_with_a_good_probe_after_its_time(health: Health, clock: Clock) -> None:
    fail(health, "died")
    health.probed(None)
    assert health.state == "ejected"
    clock.now += FIRST_EJECTION_SECONDS
    health.probed(None)
    assert health.state == "ready"


def test_each_ejection_is_twice_as_long_until_a_call_succeeds(health: Health, clock: Clock) -> None:
    def ejected_seconds() -> float:
        fail(health, "died")
        started = clock.now
        while health.state == "ejected":
            clock.now += 0.5
            health.probed(None)
        return clock.now - started

    lengths = [ejected_seconds() for _ in range(8)]
    health.succeeded()

    assert lengths == [1, 2, 4, 8, 16, 32, LONGEST_EJECTION_SECONDS, LONGEST_EJECTION_SECONDS]
    assert ejected_seconds() == FIRST_EJECTION_SECONDS


def test_a_call_that_ends_well_while_it_is_ejected_shortens_no_pause(
    health: Health, clock: Clock
) -> None:
    """It began before, and tells nothing of now."""
    fail(health, "died")
    health.succeeded()
    clock.now += FIRST_EJECTION_SECONDS
    health.probed(None)
    fail(health, "died")
    clock.now += 2 * FIRST_EJECTION_SECONDS - 0.01
    health.probed(None)

    assert health.state == "ejected"


def test_one_that_is_really_gone_is_not_ejected_but_connecting(
    health: Health, clock: Clock
) -> None:
    fail(health, "lost")
    clock.now += FIRST_EJECTION_SECONDS
    health.probed(error("lost"))

    assert (health.state, health.answers) == ("connecting", False)


def test_a_probe_without_an_answer_counts_only_in_a_row(health: Health) -> None:
    for _ in range(SILENT_PROBES - 1):
        health.probed(error("silent"))
    assert (health.state, health.is_stuck) == ("ready", False)
    health.probed(None)
    for _ in range(SILENT_PROBES):
        health.probed(error("silent"))
    assert (health.state, health.is_stuck) == ("connecting", True)


def test_one_that_drains_does_so_until_it_is_back_or_gone(health: Health, clock: Clock) -> None:
    fail(health, "draining")
    health.probed(error("lost"))
    assert health.state == "draining"
    clock.now += DRAIN_SECONDS
    health.probed(error("lost"))
    assert health.state == "connecting"


def test_a_model_that_was_reloaded_is_used_again(health: Health) -> None:
    fail(health, "draining")
    health.probed(None)

    assert health.state == "ready"


def test_the_last_error_is_kept(health: Health) -> None:
    fail(health, "failed")
    health.succeeded()

    assert health.last_error == "words"


def test_one_that_is_no_longer_there_drains_for_good(health: Health) -> None:
    health.leave()
    health.probed(None)

    assert (health.state, health.answers) == ("draining", False)


def test_behind_a_new_connection_it_is_the_same_triton(health: Health, clock: Clock) -> None:
    """Else one whose connection is renewed would be used at once, and pause anew from 1 s."""
    fail(health, "lost")
    clock.now += FIRST_EJECTION_SECONDS
    health.probed(None)
    fail(health, "lost")
    renewed = health.renewed()
    health.leave()

    renewed.probed(None)
    clock.now += 2 * FIRST_EJECTION_SECONDS - 0.01
    renewed.probed(None)
    held = renewed.state
    clock.now += 0.01
    renewed.probed(None)

    assert (held, renewed.state, renewed.ejections) == ("ejected", "ready", 2)
    assert renewed.last_error == "words"
    assert fail(renewed, "lost") == "ejected"
    clock.now += 4 * FIRST_EJECTION_SECONDS - 0.01
    renewed.probed(None)
    assert renewed.state == "ejected"


@pytest.mark.parametrize("fault", ["lost", "died", "draining"])
def test_one_that_is_ready_again_has_a_share_that_grows(clock: Clock, fault: Fault) -> None:
    health = Health(clock, slow_start_seconds=8.0)
    health.probed(None)
    clock.now += 8
    full = health.share
    fail(health, fault)
    clock.now += DRAIN_SECONDS
    health.probed(error("lost"))
    health.probed(None)
    shares = []
    for _ in range(5):
        shares.append(health.share)
        clock.now += 2

    assert full == 1.0
    assert shares == [FIRST_SHARE, 0.25, 0.5, 0.75, 1.0]


def test_behind_a_new_connection_it_starts_slowly_too(clock: Clock) -> None:
    renewed = Health(clock, slow_start_seconds=8.0).renewed()
    renewed.probed(None)
    clock.now += 4

    assert renewed.share == 0.5


def test_of_those_that_are_not_ready_none_has_less(clock: Clock) -> None:
    """Where none is ready, all that answer are used alike."""
    health = Health(clock, slow_start_seconds=8.0)
    health.probed(None)
    fail(health, "died")

    assert health.share == 1.0


def test_a_stuck_one_is_not_stuck_behind_a_new_connection(health: Health) -> None:
    for _ in range(SILENT_PROBES):
        health.probed(error("silent"))

    renewed = health.renewed()

    assert (health.is_stuck, renewed.is_stuck) == (True, False)
    assert (renewed.state, renewed.answers) == ("connecting", False)
