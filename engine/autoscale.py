"""How many Tritons there should be, by what gateways have in flight, and which one may go.

Modal's own scaling counts inputs, and sees nothing of what comes through a tunnel.
"""

from __future__ import annotations

import json
import logging
import math
import time
import urllib.request
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from engine.publication import Registry

FULL_SHARE = 0.7
"""Of its streams that a Triton should have: the rest is for what comes while another starts."""
ASK_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Load:
    """What a gateway has at one Triton."""

    key: str
    in_flight: int
    capacity: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many Tritons there may be, and how long fewer must do before one goes.

    The least is one: where there is none, nothing is in flight that would ask for one.
    """

    floor: int
    ceiling: int
    capacity: int
    cool_down_seconds: float = 300.0

    def __post_init__(self) -> None:
        """Raise EngineError for bounds that nothing fits into."""
        if not 1 <= self.floor <= self.ceiling:
            raise EngineError(
                f"{self.floor} to {self.ceiling} Tritons: the least must be 1 or more, and not "
                "above the most"
            )

    def needed(self, loads: Sequence[Load]) -> int:
        """Return how many Tritons what is in flight asks for."""
        in_flight = sum(load.in_flight for load in loads)
        needed = math.ceil(in_flight / (self.capacity * FULL_SHARE))
        return min(max(needed, self.floor), self.ceiling)


class Scaler:
    """Follows the load: up at once, down by one at a time, and only by one that is idle.

    Whoever is to go is asked to: it takes itself out of the registry, and ends when what came
    meanwhile has ended. `keep` has so many containers kept, at least.
    """

    def __init__(
        self,
        bounds: Bounds,
        keep: Callable[[int], None],
        leaving: Registry,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bounds = bounds
        self._keep = keep
        self._leaving = leaving
        self._clock = clock
        self._wanted = 0
        self._enough_since_seconds: float | None = None

    def step(self, loads: Sequence[Load]) -> None:
        """Look at the loads of now, and change what has to be changed."""
        # After a start of this program, those that there are count as wanted.
        present = self._wanted or min(max(len(loads), self._bounds.floor), self._bounds.ceiling)
        needed = self._bounds.needed(loads)
        if needed > present or not self._wanted:
            self._want(max(needed, present))
        if needed >= max(self._wanted, len(loads)):
            self._enough_since_seconds = None
        elif self._enough_since_seconds is None:
            self._enough_since_seconds = self._clock()
        elif self._clock() - self._enough_since_seconds >= self._bounds.cool_down_seconds:
            self._shrink(loads, needed)

    def _shrink(self, loads: Sequence[Load], needed: int) -> None:
        idle = sorted(load.key for load in loads if load.in_flight == 0)
        if len(loads) <= needed:
            self._want(needed)  # Some never came, or have gone.
        elif idle:
            # In this order, or one that has left would be replaced.
            self._want(min(self._wanted, max(needed, len(loads) - 1)))
            self._leaving.put(idle[0], value=True)
            log.info("autoscale.leave key=%s", idle[0])
        else:
            return
        self._enough_since_seconds = None

    def _want(self, count: int) -> None:
        if count != self._wanted:
            log.info("autoscale.want count=%d was=%d", count, self._wanted)
            self._keep(count)
            self._wanted = count


def read_loads(gateway_url: str, api_key: str = "") -> list[Load]:
    """Return what the gateway has at each Triton; raises EngineError if it does not say."""
    url = f"{gateway_url.rstrip('/')}/v1/replicas"
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  the operator's own
    try:
        with urllib.request.urlopen(request, timeout=ASK_SECONDS) as answer:  # noqa: S310
            replicas = json.load(answer)["replicas"]
        return _by_key(Load(one["name"], one["in_flight"], one["capacity"]) for one in replicas)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"{url} does not tell the loads: {error!r}") from error


def _by_key(loads: Iterable[Load]) -> list[Load]:
    """Return one for each Triton: behind a new connection, its old streams are another row."""
    found: dict[str, Load] = {}
    for load in loads:
        before = found.get(load.key)
        in_flight = load.in_flight + (before.in_flight if before else 0)
        found[load.key] = replace(load, in_flight=in_flight)
    return list(found.values())


def follow(scaler: Scaler, read: Callable[[], list[Load]], wait: Callable[[], bool]) -> None:
    """Step again and again, until `wait` says that it is over.

    A failed reading changes nothing, and what the platform refused is tried again.
    """
    while not wait():
        try:
            scaler.step(read())
        except EngineError as error:
            log.warning("autoscale.blind reason=%s", error)
        except Exception as error:  # noqa: BLE001  Modal's and the network's are many
            log.warning("autoscale.step_failed reason=%r", error)
