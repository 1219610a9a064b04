"""`ready`: whether what `serve` runs on this machine is ready, as a health check asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine import runs
from engine.control import TritonControl
from engine.errors import EngineError
from engine.server import LOOPBACK_FILE
from speech_wire import LoopbackAccess

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Declare the command."""
    ready = commands.add_parser(
        "ready", help="end with 0 if the Triton that `serve` runs on this machine is ready"
    )
    ready.set_defaults(run=run)


def run(_: argparse.Namespace) -> None:
    """Ask each of this user's runs, as its own models ask; raises EngineError if one is not."""
    folders = runs.find_folders()
    if not folders:
        raise EngineError("no `serve` of this user runs on this machine")
    for folder in folders:
        try:
            access = LoopbackAccess.read(folder / LOOPBACK_FILE)
        except (FileNotFoundError, ValueError) as error:
            raise EngineError(
                f"Triton is not ready: its `serve` is starting, and has not written yet how it is "
                f"reached (in {folder})"
            ) from error
        address = access.address or ""
        control = TritonControl(address, access, admin_key="", metrics_address="")
        if not control.is_ready():
            raise EngineError(f"Triton at {address} is not ready: {control.last_failure}")
