"""What befalls a Triton, how it ends, and what may be lost of it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.station import Station

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `harm` brings it, `heal` takes it away and returns when the Triton is well."""

    name: str
    harm: Callable[[Station], None]
    heal: Callable[[Station], None]
    loses_nothing: bool = False


def _nothing(_: Station) -> None:
    pass


KILL = Fault("kill -9", Station.kill, Station.restart)
DRAIN = Fault("SIGTERM", Station.drain, Station.restart, loses_nothing=True)
FREEZE = Fault("frozen process", Station.freeze, Station.thaw)
CUT = Fault("cut relay", Station.cut, Station.join)
STALL = Fault("stalled relay", Station.stall, Station.flow)
SLOW = Fault("slowed relay", Station.slow, Station.hasten)
MOVE = Fault("moved address", Station.move, _nothing)
STRANGER = Fault("wrong certificate", Station.leave_to_strangers, Station.return_from_strangers)
FORGET = Fault("restarted without the model", Station.forget, Station.remember)
EMPTY = Fault("restarted with an empty repository", Station.lose_all, Station.find_all)

FAULTS = (KILL, DRAIN, FREEZE, CUT, STALL, SLOW, MOVE, STRANGER, EMPTY)
ALONE = tuple((fault,) for fault in (*FAULTS, FORGET))
SHORT = ((KILL,), (DRAIN,), (STALL,), (MOVE, STRANGER), (CUT,) * 4)
PAIRS = tuple(itertools.combinations(FAULTS, 2))
EVERYWHERE = tuple((fault,) * 4 for fault in (KILL, CUT, STRANGER))
"""All Tritons at once: nobody can speak, and all are told so."""


def name_of(faults: tuple[Fault, ...]) -> str:
    """Return what a row of the table is called."""
    if len(faults) > 1 and len(set(faults)) == 1:
        return f"{faults[0].name}, all {len(faults)}"
    return " + ".join(fault.name for fault in faults) or "none"
