"""Addresses that never change."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from gateway.backend.discovery.source import Addresses


class StaticSource:
    """An AddressSource of one set."""

    def __init__(self, addresses: Addresses) -> None:
        self.problem = ""
        self._addresses = addresses

    async def watch(self) -> AsyncGenerator[Addresses, None]:
        """See AddressSource.watch."""
        yield self._addresses
