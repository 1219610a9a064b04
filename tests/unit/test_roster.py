"""What the list of Tritons leaves behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.backend.roster import Roster
from gateway.backend.security import Security
from gateway.backend.upstream import UpstreamCounts
from gateway.backend.way import Way
from gateway.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

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
        while len(asyncio.all_tasks()) < before + 2:
            await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait({caller})
        await asyncio.sleep(0)
        after = len(asyncio.all_tasks())
        await roster.aclose()
        return after - before

    assert asyncio.run(left()) == 0
