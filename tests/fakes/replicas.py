"""Several fake Tritons behind one service."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import grpc

from fakes.service import RunningService
from fakes.triton import Abort, Fail

if TYPE_CHECKING:
    from pathlib import Path

    from fakes.triton import FakeTriton

LOST = Abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
GOING = Fail("Request for unknown model: 'hibari' has no available versions")
GONE = Fail("Request for unknown model: 'hibari' is not found")
FULL = Fail("Exceeds maximum queue size")
FAST = {"probe_interval_seconds": 0.05, "discovery_interval_seconds": 0.05}


def serve(*tritons: FakeTriton, **settings: Any) -> RunningService:
    """Return the service in front of these."""
    return RunningService(tritons, **settings)


def wait_ready(service: RunningService, *tritons: FakeTriton) -> None:
    """Return once the service takes all of them for ready."""
    for triton in tritons:
        service.wait_state(triton.address, "ready")


def write(file: Path, *tritons: FakeTriton) -> str:
    """Replace the file with one that names these, and return it as an address."""
    entries = [{"address": triton.address, "capacity": 3} for triton in tritons]
    beside = file.with_suffix(".new")
    beside.write_text(json.dumps({"replica": entries}), "utf-8")
    beside.replace(file)
    return f"file://{file}"
