"""The way to Triton, from the settings: where it is, and what keeps it safe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.backend.discovery.choose import choose_source
from gateway.backend.security import Security

if TYPE_CHECKING:
    from gateway.backend.discovery.source import AddressSource
    from gateway.settings import Settings


@dataclass(frozen=True, slots=True)
class Way:
    """What there must be before there is a channel."""

    source: AddressSource
    security: Security

    @classmethod
    def of(cls, settings: Settings) -> Way:
        """Make it; raises SettingsError where settings do not go together."""
        return cls(choose_source(settings), Security.of(settings))
