"""Tells gateways where a Triton is: an entry in a registry, kept fresh while the Triton lives."""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BEAT_SECONDS = 10.0
"""Gateways ignore an entry that stands still for 45 s, which is four of these."""
STOP_SECONDS = 2.0
"""How long an end waits for the registry: what is in flight needs the time."""
STILL_SECONDS = 45
"""Whose heartbeat stands still as long is dead, for gateways too."""
LOOK_SECONDS = 1

log = logging.getLogger(__name__)


class Registry(Protocol):
    """What is used of a modal.Dict."""

    def get(self, key: str, default: Any = ...) -> Any:
        """Return what is kept under a name, or the default."""

    def keys(self) -> Iterable[str]:
        """Return the names under which something is kept."""

    def put(self, key: str, value: Any) -> Any:
        """Set what is kept under a name."""

    def pop(self, key: str, default: Any = ...) -> Any:
        """Take it away and return it, or the default."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a Triton is and how it is spoken to, as a gateway reads it.

    No secret is in it: whoever may read the registry would have it.
    """

    address: str
    tls: str
    capacity: int
    server_name: str = ""


class Publication:
    """The entry of one Triton. From `begin` to `withdraw` it has a new heartbeat every 10 s.

    `wanted` is asked before each beat; once it says no the entry is withdrawn, since what it
    names is gone. A registry that does not answer is asked again: gateways keep what they know.
    """

    def __init__(
        self,
        registry: Registry,
        key: str,
        wanted: Callable[[], bool],
        beat_seconds: float = BEAT_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._registry = registry
        self._key = key
        self._wanted = wanted
        self._beat_seconds = beat_seconds
        self._clock = clock
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def has_begun(self) -> bool:
        """Whether anybody may know of it."""
        return self._thread is not None

    def begin(self, place: Place) -> None:
        """Write the entry, and go on writing it; what the first writing raises is raised."""
        self._place = place
        self._beat()
        self._thread = threading.Thread(target=self._keep, name="heartbeat", daemon=True)
        self._thread.start()

    def withdraw(self) -> None:
        """Have the entry taken away, and wait for that, not long. Safe to call at any time."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def _keep(self) -> None:
        """Beat until it is over. A registry that hangs holds up this thread and nobody else."""
        while not self._ended.wait(self._beat_seconds):
            try:
                if not self._wanted():
                    break
                self._beat()
            except Exception as error:  # noqa: BLE001  Modal's and the network's are many
                log.warning("publication.beat_failed key=%s reason=%r", self._key, error)
        try:
            self._registry.pop(self._key, None)
        except Exception as error:  # noqa: BLE001  Modal's and the network's are many
            log.warning("publication.not_withdrawn key=%s reason=%r", self._key, error)

    def _beat(self) -> None:
        said = {name: value for name, value in asdict(self._place).items() if value != ""}
        self._registry.put(self._key, json.dumps({**said, "heartbeat": self._clock()}))


def beats(registry: Registry, key: str, wait: Callable[[float], object] = time.sleep) -> bool:
    """Return whether the entry's heartbeat moves; an entry that stands still is taken away.

    Whoever has crashed cannot do that, and would be taken for alive by his entry.
    """
    first = registry.get(key, None)
    for _ in range(STILL_SECONDS // LOOK_SECONDS):
        if first is None:
            return False
        wait(LOOK_SECONDS)
        if (now := registry.get(key, None)) != first:
            return now is not None
    registry.pop(key, None)
    log.warning("publication.dead_entry key=%s", key)
    return False
