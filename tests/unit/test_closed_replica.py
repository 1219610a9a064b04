"""A Triton that has left while it was still asked."""

from __future__ import annotations

import asyncio

from gateway.backend.addresses import Address
from gateway.backend.health import Health
from gateway.backend.replica import Replica
from gateway.backend.security import Security
from gateway.backend.stream import StreamLimits
from gateway.settings import Settings


def test_a_probe_ends_with_the_channel_and_without_an_exception() -> None:
    async def probe_after_the_end() -> Replica:
        address, settings = Address("a", "127.0.0.1", 1), Settings(_env_file=None)
        replica = Replica(address, settings, Security(), StreamLimits(1.0, 1.0), Health())
        await replica.aclose()
        await replica.probe()
        return replica

    left = asyncio.run(probe_after_the_end())

    assert "channel to Triton is closed" in left.unready["hibari"].message
    assert left.health.state == "connecting"
