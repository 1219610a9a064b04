"""A Triton that has left while it was still asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fakes.tokenizer import FakeTokenizer
from gateway.backend.addresses import Address
from gateway.backend.health import Health
from gateway.backend.replica import Replica
from gateway.backend.security import Security
from gateway.backend.stream import StreamLimits
from gateway.errors import BackendUnavailableError
from gateway.settings import Settings
from gateway.speech.deadline import Deadline
from gateway.speech.synthesizer import CallContext

if TYPE_CHECKING:
    from fakes.triton import FakeTriton


def replica_at(port: int) -> Replica:
    address, settings = Address("a", "127.0.0.1", port), Settings(_env_file=None)
    return Replica(address, settings, Security(), StreamLimits(1.0, 1.0), Health())


def test_a_probe_ends_with_the_channel_and_without_an_exception() -> None:
    async def probe_after_the_end() -> Replica:
        replica = replica_at(1)
        await replica.aclose()
        await replica.probe()
        return replica

    left = asyncio.run(probe_after_the_end())

    assert "channel to Triton is closed" in left.unready["hibari"].message
    assert left.health.state == "connecting"


def test_one_that_left_before_it_tokenised_is_unavailable(triton: FakeTriton) -> None:
    triton.tokenizer = FakeTokenizer()

    async def tokenise_after_the_end() -> None:
        replica = replica_at(triton.port)
        await replica.tokenizer()
        await replica.aclose()
        await replica.tokenise(np.zeros(320, np.float32), CallContext("x", Deadline.after(5.0)))

    with pytest.raises(BackendUnavailableError, match="channel to Triton is closed"):
        asyncio.run(tokenise_after_the_end())
