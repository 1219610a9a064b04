"""Settings that change nothing where others are as they are: harmless, but not what was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.settings import Settings


def unused_settings(settings: Settings) -> list[str]:
    """Return a warning for each setting that is not its default and has no effect."""
    scheme = settings.triton_address.rpartition("://")[0]
    cases = (
        ("discovery_interval_seconds", not scheme, "a list of addresses is read once"),
        ("discovery_stale_seconds", scheme != "modal", "it is for an address modal://name"),
        ("open_without_key", not settings.known_keys, "without API keys all is open to everyone"),
        ("triton_plaintext", settings.triton_tls != "off", "with TLS nothing goes in plaintext"),
    )
    fields = type(settings).model_fields
    return [
        f"SPEECH_{name.upper()} has no effect: {reason}"
        for name, is_unused, reason in cases
        if is_unused and getattr(settings, name) != fields[name].default
    ]
