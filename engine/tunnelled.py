"""A Triton that is reached through a tunnel: started, published, held, and withdrawn in order."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.publication import BEAT_SECONDS, Place, Publication
from engine.served import ServedTriton

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.publication import Registry

MAX_AGE_SECONDS = 23 * 3600.0
"""Modal ends an input after 24 h; what leaves before then is not cut."""
SPREAD_SECONDS = 3 * 3600.0
"""Those that were started together do not leave together: each goes up to so much earlier."""
SUCCESSOR_SECONDS = 1500.0
"""How long one that is old stays for another to come; where there may be no more, none does."""
EXIT_TIMEOUT_SECONDS = 15
"""For what is in flight. A call speaks one segment of a text, some 300 characters at most."""
STOP_SECONDS = EXIT_TIMEOUT_SECONDS + 4.0
"""For tritonserver's end and the supervisor's after it."""
UNSEEN_SECONDS = 6.0
"""Gateways read the registry every 5 s: until then they send requests to what is withdrawn."""
SERVER_NAME = "triton.internal"
"""A name in the certificates of `engine certs`: a raw tunnel's host is another each time."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """What the platform gives: tunnels, the registry, and who has been asked to leave.

    `forward` opens a tunnel to a port; `address` says where that leads, host and port; `succeed`
    has one Triton more started.
    """

    forward: Callable[[int], AbstractContextManager[Any]]
    address: Callable[[Any], tuple[str, int]]
    registry: Registry
    leaving: Registry
    succeed: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Replica:
    """One Triton: its name in the registry, how it is started, and what is said of it.

    `lasts_seconds` is after how long another should take its place.
    """

    key: str
    command: Sequence[str]
    port: int
    tls: str
    capacity: int
    server_name: str = ""
    lasts_seconds: float = MAX_AGE_SECONDS


class TunnelledTriton:
    """Serves from `start` to `stop`; `hold` lasts as long as it should be used.

    What platforms count as work is `hold`: they see nothing of what comes through a tunnel.
    """

    def __init__(
        self,
        replica: Replica,
        plane: ControlPlane,
        beat_seconds: float = BEAT_SECONDS,
        unseen_seconds: float = UNSEEN_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._replica = replica
        self._plane = plane
        self._beat_seconds = beat_seconds
        self._unseen_seconds = unseen_seconds
        self._clock = clock
        self._is_over = threading.Event()
        self._was_asked = False
        self._tunnel = ExitStack()
        self._has_ended = threading.Event()
        self._triton = ServedTriton(replica.command, STOP_SECONDS, self._note_end)
        self._publication = Publication(plane.registry, replica.key, self._is_wanted, beat_seconds)

    def start(self, timeout_seconds: float) -> None:
        """Start Triton, open the tunnel and publish it; raises EngineError if Triton will not."""
        self._started_seconds = self._clock()
        replica = self._replica
        try:
            self._triton.start(timeout_seconds)
            tunnel = self._tunnel.enter_context(self._plane.forward(replica.port))
            host, port = self._plane.address(tunnel)
            place = Place(f"{host}:{port}", replica.tls, replica.capacity, replica.server_name)
            self._publication.begin(place)
        except BaseException:
            self.stop()
            raise
        log.info("tunnel.open key=%s address=%s", replica.key, place.address)

    def hold(self) -> str:
        """Return "asked" or "aged" when this one should leave; raises ServerDiedError if it died.

        It is withdrawn then, so that nothing new comes.
        """
        left_seconds = self._replica.lasts_seconds - (self._clock() - self._started_seconds)
        if not self._is_over.wait(max(0.0, left_seconds)):
            self._await_successor()
        self._publication.withdraw()
        self._triton.check_alive()
        return "asked" if self._was_asked else "aged"

    def stop(self) -> None:
        """Withdraw it, let gateways see that and requests end, then stop. Safe to call twice."""
        self._publication.withdraw()
        if self._publication.has_begun:
            self._has_ended.wait(self._unseen_seconds)
        self._triton.stop()
        self._is_over.set()
        self._tunnel.close()

    def _await_successor(self) -> None:
        """Have another started, and return once it is there: until then nobody might be."""
        give_up_at_seconds = self._clock() + SUCCESSOR_SECONDS
        try:
            before = set(self._plane.registry.keys())
            self._plane.succeed()
        except Exception as error:  # noqa: BLE001  Modal's and the network's are many
            log.warning("tunnel.no_successor key=%s reason=%r", self._replica.key, error)
            return
        while self._clock() < give_up_at_seconds and not self._published() - before:
            if self._is_over.wait(self._beat_seconds):
                return

    def _published(self) -> set[str]:
        try:
            return set(self._plane.registry.keys())
        except Exception as error:  # noqa: BLE001  Modal's and the network's are many
            log.warning("tunnel.registry_unread key=%s reason=%r", self._replica.key, error)
            return set()

    def _note_end(self) -> None:
        self._has_ended.set()
        self._is_over.set()

    def _is_wanted(self) -> bool:
        if not self._triton.is_alive():
            return False
        if self._plane.leaving.pop(self._replica.key, None):
            self._was_asked = True
            self._is_over.set()
        return not self._was_asked


def exit_seconds() -> float:
    """Return how long `stop` takes at most."""
    return UNSEEN_SECONDS + STOP_SECONDS
