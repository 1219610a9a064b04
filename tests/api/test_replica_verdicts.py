"""What a failed call makes of its Triton."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakes.replicas import LOST, wait_ready
from fakes.service import RunningService, message_of
from fakes.triton import Script

if TYPE_CHECKING:
    from fakes.triton import FakeTriton

NEVER = {"probe_interval_seconds": 600.0}


def test_one_that_a_call_has_lost_is_probed_at_once(triton: FakeTriton) -> None:
    """Its next probe would be due in ten minutes."""
    triton.script = Script([LOST])

    with RunningService(triton, **NEVER) as service:
        service.learn()
        lost = service.say()
        wait_ready(service, triton)

    assert message_of(lost, 503, "backend_unavailable")
