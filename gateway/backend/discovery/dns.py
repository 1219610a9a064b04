"""All addresses behind a name in DNS: a headless service of Kubernetes, a round-robin record."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from gateway.addresses import host_and_port
from gateway.backend.addresses import DiscoveryError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gateway.backend.addresses import Defaults
    from gateway.backend.discovery.source import Addresses

Resolve: TypeAlias = "Callable[[str], Awaitable[list[str]]]"
GONE_SECONDS = 30.0
"""How long a name may be without an address before its Tritons are taken for gone.

A cluster's DNS forgets names for seconds while it restarts; a Triton that is really gone is
noticed by its probes.
"""
NO_ADDRESS = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}


class DnsReader:
    """Reads A and AAAA records; each is a Triton. Certificates are checked against the name."""

    def __init__(
        self,
        host: str,
        port: int,
        defaults: Defaults,
        resolve: Resolve | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._port = port
        self._defaults = replace(defaults, server_name=defaults.server_name or host)
        self._resolve = resolve or resolve_all
        self._clock = clock
        self._last_found_seconds = clock()

    async def read(self) -> Addresses:
        """See Reader.read."""
        try:
            ips = await self._resolve(self._host)
        except socket.gaierror as error:
            without_seconds = self._clock() - self._last_found_seconds
            if error.errno in NO_ADDRESS and without_seconds >= GONE_SECONDS:
                return ()
            raise DiscoveryError(f"{self._host} cannot be resolved: {error.strerror}") from error
        self._last_found_seconds = self._clock()
        return tuple(
            self._defaults.address(ip, self._port, host_and_port(ip, self._port)) for ip in ips
        )


async def resolve_all(host: str) -> list[str]:
    """Return all IP addresses of a name, each once; raises socket.gaierror."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise socket.gaierror(socket.EAI_NONAME, f"no name can be such: {error}") from error
    return sorted({str(entry[4][0]) for entry in found})
