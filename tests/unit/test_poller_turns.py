"""Showing what many Tritons said leaves requests their turns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tritonclient.grpc import service_pb2

from gateway.backend.poller import StatisticsPoller
from gateway.backend.statistics import Target

if TYPE_CHECKING:
    from collections.abc import Collection

    from gateway.backend.poller import Snapshot


class AtOnce:
    """A Triton whose answers are all there in the same turn of the event loop."""

    async def _answer(self, request: Any, timeout: float, metadata: Any) -> Any:
        name = type(request).__name__.replace("Request", "Response")
        assert timeout > 0
        assert metadata == ()
        return getattr(service_pb2, name)()

    ModelStatistics = RepositoryIndex = ServerReady = ServerMetadata = _answer


def test_requests_have_a_turn_between_two_snapshots() -> None:
    """Each takes milliseconds to show; twenty without a break would be heard."""
    turns, at = 0, []

    class Counting:
        def update(self, _: Snapshot) -> None:
            at.append(turns)

        def keep(self, names: Collection[str]) -> None:
            assert len(names) == 20

    async def watch() -> None:
        nonlocal turns
        replicas = [Target(str(number), AtOnce()) for number in range(20)]
        poller = StatisticsPoller(lambda: replicas, Counting(), (), 30.0)
        polling = asyncio.create_task(poller.poll())
        while not polling.done():
            turns += 1
            await asyncio.sleep(0)
        await poller.aclose()

    asyncio.run(watch())

    assert len(set(at)) == 20
