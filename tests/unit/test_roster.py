"""What is known of Tritons, and what is left behind."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from fakes.clock import Clock
from gateway.backend.addresses import Address
from gateway.backend.discovery.static import StaticSource
from gateway.backend.health import STRIKES
from gateway.backend.replicas import Replicas
from gateway.backend.roster import Roster
from gateway.backend.security import Security
from gateway.backend.upstream import UpstreamCounts
from gateway.backend.way import Way
from gateway.errors import BackendTimeoutError
from gateway.settings import Settings
from gateway.speech.deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from fakes.triton import FakeTriton
    from gateway.backend.discovery.source import Addresses


class Silent:
    """An AddressSource that never knows."""

    problem = ""

    async def watch(self) -> AsyncGenerator[Addresses, None]:
        await asyncio.Event().wait()
        yield ()


def test_a_caller_who_leaves_while_no_address_is_known_leaves_no_task() -> None:
    async def left() -> int:
        roster = Roster(Settings(_env_file=None), Way(Silent(), Security()), UpstreamCounts())
        before = len(asyncio.all_tasks())
        caller = asyncio.create_task(roster.wait_known())
        for _ in range(3):
            await asyncio.sleep(0)
        waiting = len(asyncio.all_tasks())
        caller.cancel()
        await asyncio.wait({caller})
        await asyncio.sleep(0)
        assert waiting == before + 2
        after = len(asyncio.all_tasks())
        await roster.aclose()
        return after - before

    assert asyncio.run(left()) == 0


def test_one_that_is_there_again_takes_its_share_as_slowly_as_is_set(triton: FakeTriton) -> None:
    source = StaticSource((Address("a", "127.0.0.1", triton.port),))
    settings, clock = Settings(_env_file=None, slow_start_seconds=20.0), Clock()

    async def shares() -> list[float]:
        roster = Roster(settings, Way(source, Security()), UpstreamCounts(), clock)
        await roster.wait_known()
        [replica] = roster.present
        await roster.probe(replica)
        found = []
        for _ in range(3):
            found.append(replica.share)
            clock.now += 10.0
        await roster.aclose()
        return found

    assert asyncio.run(shares()) == [0.1, 0.5, 1.0]


@pytest.mark.parametrize(("left_seconds", "state"), [(0.0, "ready"), (1.0, "ejected")])
def test_of_calls_that_their_deadline_ended_nothing_is_told(
    triton: FakeTriton, left_seconds: float, state: str
) -> None:
    """Whoever gives a model less time than it may take must not have it ejected."""
    addresses = (Address("a", "127.0.0.1", triton.port), Address("nobody", "127.0.0.1", 1))
    settings, deadline = Settings(_env_file=None), Deadline(left_seconds, lambda: 0.0)

    async def after_many() -> str:
        way = Way(StaticSource(addresses), Security())
        replicas = Replicas(settings, way, UpstreamCounts())
        await replicas.refresh(["hibari"])
        [replica] = (each for each in replicas.present() if each.name == "a")
        for _ in range(STRIKES):
            with suppress(BackendTimeoutError), replicas.call(replica, deadline):
                raise BackendTimeoutError("silent")
        found = replica.health.state
        await replicas.aclose()
        return found

    assert asyncio.run(after_many()) == state
