"""What a failed call makes of its Triton, and a model that is another than the others'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakes.replicas import FAST, LOST, wait_ready, write
from fakes.service import RunningService, message_of
from fakes.triton import FakeTriton, Script

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NEVER = {"probe_interval_seconds": 600.0}


def test_one_that_a_call_has_lost_is_probed_at_once(triton: FakeTriton) -> None:
    """Its next probe would be due in ten minutes."""
    triton.script = Script([LOST])

    with RunningService(triton, **NEVER) as service:
        service.learn()
        lost = service.say()
        wait_ready(service, triton)

    assert message_of(lost, 503, "backend_unavailable")


def test_one_whose_model_differs_is_told_once_and_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "tritons.json"
    with (
        FakeTriton(Script(checkpoint="one")) as one,
        FakeTriton(Script(checkpoint="another")) as other,
        RunningService(write(file, one), **FAST) as service,
    ):
        wait_ready(service, one)
        write(file, one, other)
        wait_ready(service, one, other)
        asked = len(other.door.metadata)
        while len(other.door.metadata) < asked + 8:
            shown = service.replicas()

    assert shown[one.address]["set_aside"] == []
    assert shown[other.address]["set_aside"] == ["hibari"]
    told = [vars(r)["fields"] for r in caplog.records if r.message == "replica.set_aside"]
    assert [(each["replica"], each["models"]) for each in told] == [(other.address, "hibari")]
