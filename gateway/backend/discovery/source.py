"""The role that tells which Tritons there are, and what is common to those who ask again."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol, TypeAlias

from gateway.backend.addresses import Address, DiscoveryError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

log = logging.getLogger("speech.replicas")

Addresses: TypeAlias = tuple[Address, ...]


class AddressSource(Protocol):
    """Tells which Tritons there are."""

    problem: str
    """Why the addresses cannot be told now, "" while they can."""

    def watch(self) -> AsyncGenerator[Addresses, None]:
        """Yield all addresses at the beginning and whenever they change; ends if they never do."""


class Reader(Protocol):
    """Tells the addresses as they are now."""

    async def read(self) -> Addresses:
        """Return them; raises DiscoveryError."""


class Polled:
    """An AddressSource that reads again and again; while it cannot, the last set stays."""

    def __init__(self, reader: Reader, every_seconds: float) -> None:
        self.problem = ""
        self._reader = reader
        self._every_seconds = every_seconds

    async def watch(self) -> AsyncGenerator[Addresses, None]:
        """See AddressSource.watch."""
        known: Addresses | None = None
        while True:
            found = await self._read()
            if found is not None and found != known:
                known = found
                yield found
            await asyncio.sleep(self._every_seconds)

    async def _read(self) -> Addresses | None:
        try:
            found = check_distinct(await self._reader.read())
        except DiscoveryError as error:
            if self.problem != str(error):
                log.warning("discovery.failed", extra={"fields": {"reason": str(error)}})
            self.problem = str(error)
            return None
        except Exception as error:
            # A fault of ours in one reading must not leave the addresses as they are for ever.
            log.exception("discovery.failed")
            self.problem = type(error).__name__
            return None
        if self.problem:
            log.info("discovery.works_again", extra={"fields": {"addresses": len(found)}})
        self.problem = ""
        return found


def check_distinct(addresses: Addresses) -> Addresses:
    """Return them in the order of their ids; raises DiscoveryError if one is there twice."""
    ids = [address.id for address in addresses]
    twice = sorted({id_ for id_ in ids if ids.count(id_) > 1})
    if twice:
        raise DiscoveryError(
            f"the name {twice[0]!r} is there twice; each Triton has one of its own"
        )
    return tuple(sorted(addresses, key=lambda address: address.id))


def check_reached_once(addresses: Addresses) -> Addresses:
    """Return them; raises DiscoveryError if one has two names, and so twice its share.

    Where something in between chooses by the name of the server or by metadata, it is another.
    """
    names: dict[tuple[object, ...], str] = {}
    for one in addresses:
        way = (one.target, one.server_name, one.metadata)
        if (other := names.setdefault(way, one.id)) != one.id:
            those = f"{other!r} and {one.id!r}"
            raise DiscoveryError(f"{those} have one address, {one.target}; name each Triton once")
    return addresses
