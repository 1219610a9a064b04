"""A registry in a modal.Dict, into which each Triton's container writes where it is.

An entry is JSON (text or a dict): `address` and what else a file's entry may have, and a
`heartbeat`, anything that is new each time. Others of its fields are the writer's own. A
container that dies cannot take its entry away, so one whose heartbeat stands still is ignored.
"""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any

from gateway.backend.addresses import DiscoveryError, Entry
from gateway.speech.deadline import timeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.backend.addresses import Address, Defaults
    from gateway.backend.discovery.source import Addresses

log = logging.getLogger("speech.replicas")

READ_SECONDS = 20.0
"""How long the registry may take: a connection that froze would keep what is known for ever."""

HINTS = {
    "AuthError": "MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or `modal setup`, must name an account",
    "ConnectionError": "Modal cannot be reached from here",
}
"""What Modal's errors mean, by their names; their own words may hold a secret."""


class ModalDictReader:
    """Reads the entries whose heartbeat moved within `stale_seconds`.

    Their age is the time since we saw the heartbeat change, on our own clock: the writer's may
    be wrong, and so may the difference between two.
    """

    def __init__(
        self,
        registry: Any,
        defaults: Defaults,
        stale_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._defaults = defaults
        self._stale_seconds = stale_seconds
        self._clock = clock
        self._beats: dict[str, tuple[str, float]] = {}
        self._wrong: dict[str, str] = {}

    async def read(self) -> Addresses:
        """See Reader.read."""
        try:
            async with timeout(READ_SECONDS):
                found = {str(key): value async for key, value in self._registry.items.aio()}
        except Exception as error:  # Modal has many, and so has the network below it.
            kind = type(error).__name__
            hint = f", {HINTS[kind]}" if kind in HINTS else ""
            raise DiscoveryError(f"the registry on Modal: {kind}{hint}") from error
        # What is gone is forgotten: a container of the same name would be another one.
        self._beats = {key: beat for key, beat in self._beats.items() if key in found}
        self._wrong = {key: words for key, words in self._wrong.items() if key in found}
        addresses = (self._address(key, value) for key, value in sorted(found.items()))
        return tuple(address for address in addresses if address is not None)

    def _address(self, key: str, value: Any) -> Address | None:
        """Return a living entry's address; one that cannot be read is no reason to lose others."""
        try:
            entry = json.loads(value) if isinstance(value, str) else value
            entry = entry if isinstance(entry, dict) else {}
            if not self._is_alive(key, repr(entry.get("heartbeat"))):
                return None
            known = {name: entry[name] for name in Entry.model_fields if name in entry}
            return self._defaults.read({**known, "id": key})
        except (DiscoveryError, ValueError) as error:
            if self._wrong.get(key) != str(error):
                fields = {"entry": key, "reason": str(error)}
                log.warning("discovery.entry_ignored", extra={"fields": fields})
            self._wrong[key] = str(error)
            return None

    def _is_alive(self, key: str, heartbeat: str) -> bool:
        now = self._clock()
        last, since_seconds = self._beats.get(key, (None, now))
        if heartbeat != last:
            since_seconds = now
        self._beats[key] = (heartbeat, since_seconds)
        return now - since_seconds < self._stale_seconds


def open_registry(name: str) -> Any:
    """Return the modal.Dict of that name; raises DiscoveryError where `modal` is missing."""
    try:
        import modal  # noqa: PLC0415  an optional extra, and slow to import
    except ImportError as error:
        raise DiscoveryError(
            "modal:// needs the package modal: pip install 'speech-gateway[modal]'"
        ) from error
    return modal.Dict.from_name(name, create_if_missing=True)
