"""SPEECH_TRITON_ADDRESS says where the Tritons are; this makes the source that follows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.addresses import split_address
from gateway.backend.addresses import Defaults, DiscoveryError
from gateway.backend.discovery.dns import DnsReader
from gateway.backend.discovery.file import FileReader
from gateway.backend.discovery.modal_dict import ModalDictReader, open_registry
from gateway.backend.discovery.source import Polled, check_distinct
from gateway.backend.discovery.static import StaticSource
from gateway.settings import SettingsError

if TYPE_CHECKING:
    from gateway.backend.discovery.source import AddressSource
    from gateway.settings import Settings


def choose_source(settings: Settings) -> AddressSource:
    """Return the source of the settings; raises SettingsError for one that cannot be."""
    # Without a bound of its own, one may have all that is let in.
    capacity = settings.replica_max_streams or settings.max_concurrent_requests
    defaults = Defaults(settings.triton_tls, settings.triton_server_name, capacity)
    scheme, _, rest = settings.triton_address.rpartition("://")
    every_seconds = settings.discovery_interval_seconds
    if settings.triton_metrics_address and (scheme or "," in rest):
        raise SettingsError(
            "SPEECH_TRITON_METRICS_ADDRESS is for one Triton; of several, a file or a registry "
            "says it in each entry's `metrics`"
        )
    try:
        match scheme:
            case "file":
                return Polled(FileReader(Path(rest), defaults), every_seconds)
            case "dns":
                return Polled(DnsReader(*split_address(rest), defaults), every_seconds)
            case "modal":
                stale_seconds = settings.discovery_stale_seconds
                reader = ModalDictReader(open_registry(rest), defaults, stale_seconds)
                return Polled(reader, every_seconds)
        named = (split_address(text.strip()) for text in rest.split(","))
        addresses = check_distinct(tuple(defaults.address(*each) for each in named))
        if len(addresses) == 1:
            addresses = (replace(addresses[0], metrics=settings.triton_metrics_address),)
        return StaticSource(addresses)
    except DiscoveryError as error:
        raise SettingsError(f"SPEECH_TRITON_ADDRESS: {error}") from error
