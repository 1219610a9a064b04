"""The life of a Triton behind a tunnel, with programs in Triton's place."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from engine.errors import EngineError, ServerDiedError
from engine.modal_tunnel import INPUT_SECONDS
from engine.served import ServedTriton
from engine.tunnelled import (
    MAX_AGE_SECONDS,
    SUCCESSOR_SECONDS,
    Replica,
    TunnelledTriton,
    exit_seconds,
)
from fakes.clock import Clock
from fakes.modal_plane import FakePlane, playing_triton

MODAL_KILLS_SECONDS = 30
JOIN_SECONDS = 2.0
START_SECONDS = 20.0


def tunnelled(plane: FakePlane, command: list[str], **options: Any) -> TunnelledTriton:
    replica = Replica("ta-1", command, 8001, "system", 8)
    return TunnelledTriton(replica, plane.plane(), beat_seconds=0.01, unseen_seconds=0.0, **options)


def test_it_is_published_where_the_tunnel_leads_once_it_is_ready() -> None:
    plane = FakePlane()
    triton = tunnelled(plane, playing_triton())

    triton.start(START_SECONDS)
    seen = dict(plane.registry.content)
    open_ports = list(plane.open_ports)
    triton.stop()

    assert '"address": "r1.tunnels.example:443"' in seen["ta-1"]
    assert open_ports == [8001]
    assert (plane.registry.content, plane.open_ports) == ({}, [])


def test_it_stops_in_order(capfd: pytest.CaptureFixture[str]) -> None:
    """Withdrawn, then ended with TERM, and the tunnel last, so that what is in flight is heard."""
    plane = FakePlane()
    pop = plane.registry.pop
    steps = []

    def noted(*of: Any) -> Any:
        steps.append(("withdrawn", triton._triton.is_alive(), list(plane.open_ports)))
        return pop(*of)

    triton = tunnelled(plane, playing_triton())
    triton.start(START_SECONDS)
    plane.registry.pop = noted  # type: ignore[method-assign]
    triton.stop()

    assert steps == [("withdrawn", True, [8001])]
    assert "stopped" in capfd.readouterr().out
    assert plane.open_ports == []


def test_gateways_have_time_to_see_that_it_is_withdrawn() -> None:
    """Until then they send it what would be refused."""
    plane = FakePlane()
    replica = Replica("ta-1", playing_triton(), 8001, "system", 8)
    triton = TunnelledTriton(replica, plane.plane(), beat_seconds=0.01, unseen_seconds=0.3)
    triton.start(START_SECONDS)

    began_seconds = time.monotonic()
    triton.stop()

    assert time.monotonic() - began_seconds >= 0.3


def test_what_was_stopped_has_not_ended_by_itself() -> None:
    ends: list[str] = []
    triton = ServedTriton(playing_triton(), 20.0, lambda: ends.append("ended"))
    triton.start(START_SECONDS)

    triton.stop()

    assert ends == []


def test_who_still_holds_it_is_let_go_when_it_is_stopped() -> None:
    plane = FakePlane()
    triton = tunnelled(plane, playing_triton())
    triton.start(START_SECONDS)

    triton.stop()

    with pytest.raises(ServerDiedError):
        triton.hold()


def test_one_that_is_asked_to_leave_is_withdrawn_and_no_longer_held() -> None:
    plane = FakePlane()
    triton = tunnelled(plane, playing_triton())
    triton.start(START_SECONDS)

    plane.leaving.put("another", value=True)
    plane.leaving.put("ta-1", value=True)

    assert triton.hold() == "asked"
    assert plane.registry.content == {}
    assert plane.leaving.content == {"another": True}
    triton.stop()


def grown_old(plane: FakePlane) -> tuple[TunnelledTriton, Clock]:
    clock = Clock(0.0)
    triton = tunnelled(plane, playing_triton(), clock=clock)
    triton.start(START_SECONDS)
    clock.now = MAX_AGE_SECONDS
    return triton, clock


def test_one_that_is_old_leaves_once_another_is_there() -> None:
    """Else, where it was the only one, there would be none while the next one loads."""
    plane = FakePlane()
    triton, _ = grown_old(plane)
    asked, leave = threading.Event(), []
    plane.succeed = asked.set
    holding = threading.Thread(target=lambda: leave.append(triton.hold()))
    holding.start()
    assert asked.wait(START_SECONDS)
    beat = plane.registry.content["ta-1"]
    plane.registry.wait(lambda content: content["ta-1"] != beat)
    plane.registry.put("ta-2", "{}")
    holding.join(START_SECONDS)

    assert leave == ["aged"]
    assert plane.registry.content.keys() == {"ta-2"}
    triton.stop()


def test_one_that_is_old_leaves_alone_where_no_other_may_come() -> None:
    plane = FakePlane()
    triton, clock = grown_old(plane)

    def succeed() -> None:
        clock.now += SUCCESSOR_SECONDS

    plane.succeed = succeed
    assert triton.hold() == "aged"
    assert plane.registry.content == {}
    triton.stop()


@pytest.mark.parametrize("fault", ["registry", "platform", "registry later"])
def test_one_that_is_old_leaves_where_nothing_answers(fault: str) -> None:
    plane = FakePlane()
    triton, clock = grown_old(plane)
    plane.registry.broken = fault == "registry"

    def refuse() -> None:
        clock.now += SUCCESSOR_SECONDS - 1
        if fault == "platform":
            raise ConnectionError("no route")
        plane.registry.broken = True
        read = plane.registry.keys

        def late() -> list[str]:
            clock.now += 1
            return read()

        plane.registry.keys = late  # type: ignore[method-assign]

    plane.succeed = refuse
    assert triton.hold() == "aged"
    triton.stop()


def test_one_that_is_asked_while_it_waits_for_another_leaves() -> None:
    plane = FakePlane()
    triton, _ = grown_old(plane)
    plane.succeed = lambda: plane.leaving.put("ta-1", value=True)

    assert triton.hold() == "asked"
    triton.stop()


def test_an_old_one_s_wait_ends_before_its_input() -> None:
    assert MAX_AGE_SECONDS + SUCCESSOR_SECONDS < INPUT_SECONDS


def test_one_whose_triton_dies_is_withdrawn_and_says_why() -> None:
    plane = FakePlane()
    dying = playing_triton("sys.stdin.close(); print('error: no more memory'); sys.exit(3)")
    triton = tunnelled(plane, dying)
    triton.start(START_SECONDS)

    with pytest.raises(ServerDiedError, match="no more memory"):
        triton.hold()

    assert plane.registry.content == {}
    triton.stop()


def test_one_that_does_not_start_is_not_published() -> None:
    plane = FakePlane()
    triton = tunnelled(plane, ["/bin/sh", "-c", "echo error: no such engine; exit 1"])

    with pytest.raises(EngineError, match=r"ended before it served(.|\n)*no such engine"):
        triton.start(START_SECONDS)

    assert (plane.registry.content, plane.open_ports) == ({}, [])


def test_one_that_is_not_ready_in_time_is_ended() -> None:
    triton = tunnelled(FakePlane(), ["/bin/sleep", "60"])

    with pytest.raises(EngineError, match=r"not ready in 0\.05 s"):
        triton.start(0.05)

    assert not triton._triton.is_alive()


def test_one_that_cannot_be_published_is_ended() -> None:
    plane = FakePlane()
    plane.registry.broken = True
    triton = tunnelled(plane, playing_triton())

    with pytest.raises(ConnectionError):
        triton.start(START_SECONDS)

    assert not triton._triton.is_alive()
    assert plane.open_ports == []


def test_all_of_it_ends_before_modal_kills() -> None:
    assert exit_seconds() + JOIN_SECONDS < MODAL_KILLS_SECONDS
