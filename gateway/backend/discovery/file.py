"""Addresses in a TOML or JSON file that somebody replaces."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from gateway.backend.addresses import DiscoveryError
from gateway.backend.discovery.source import check_distinct, check_reached_once

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.backend.addresses import Defaults
    from gateway.backend.discovery.source import Addresses


class FileReader:
    """Reads `[[replica]]` tables of a TOML file, or {"replica": […]} of a JSON file.

    Write a new file beside it and rename that: a half-written one is an error, and the last
    addresses stay.
    """

    def __init__(self, path: Path, defaults: Defaults) -> None:
        self._path = path
        self._defaults = defaults

    async def read(self) -> Addresses:
        """See Reader.read."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> Addresses:
        content = self._content()
        entries = content.get("replica")
        if unknown := sorted(content.keys() - {"replica"}):
            raise DiscoveryError(
                f"{self._path}: {unknown[0]!r} is no key of it; there is one: `replica`, for "
                "[[replica]] tables with an address in each"
            )
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise DiscoveryError(
                f"{self._path}: must be [[replica]] tables with an address in each (in JSON: "
                '{"replica": [{"address": "host:port"}]})'
            )
        addresses = []
        for number, entry in enumerate(entries, 1):
            try:
                addresses.append(self._defaults.read(entry))
            except DiscoveryError as error:
                raise DiscoveryError(f"{self._path}: replica {number}: {error}") from error
        try:
            return check_reached_once(check_distinct(tuple(addresses)))
        except DiscoveryError as error:
            raise DiscoveryError(f"{self._path}: {error}") from error

    def _content(self) -> dict[str, Any]:
        try:
            text = self._path.read_text(encoding="utf-8")
            is_json = self._path.suffix == ".json"
            content = json.loads(text) if is_json else tomllib.loads(text)
        except OSError as error:
            raise DiscoveryError(f"{self._path} cannot be read: {error.strerror}") from error
        except ValueError as error:  # Of the encoding, of TOML and of JSON.
            raise DiscoveryError(f"{self._path} cannot be read: {error}") from error
        return content if isinstance(content, dict) else {}
