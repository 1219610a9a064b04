"""The way to Triton, from the settings: where it is, and what keeps it safe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.backend.discovery.choose import choose_source
from gateway.backend.security import Security
from gateway.settings import SettingsError

if TYPE_CHECKING:
    from gateway.backend.discovery.source import AddressSource
    from gateway.settings import Settings


TLS_SETTINGS = ("triton_ca", "triton_client_cert", "triton_client_key", "triton_server_name")


@dataclass(frozen=True, slots=True)
class Way:
    """What there must be before there is a channel."""

    source: AddressSource
    security: Security

    @classmethod
    def of(cls, settings: Settings) -> Way:
        """Make it; raises SettingsError where settings do not go together."""
        _check_used(settings)
        return cls(choose_source(settings), Security.of(settings))


def _check_used(settings: Settings) -> None:
    """Raise SettingsError for what is for TLS, where there will be none or another kind."""
    # A file and a registry may ask for TLS in their entries.
    is_told = settings.triton_address.startswith(("file://", "modal://"))
    unused = {
        "off": () if is_told else TLS_SETTINGS,
        "system": ("triton_ca",),
        "private": (),
    }[settings.triton_tls]
    needed = "private" if settings.triton_tls == "system" else "system or private"
    for name in unused:
        if value := getattr(settings, name):
            raise SettingsError(
                f"SPEECH_{name.upper()} = {value} has no effect: SPEECH_TRITON_TLS is "
                f"{settings.triton_tls}; set that to {needed}, or leave this one out"
            )
