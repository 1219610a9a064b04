"""Where a Triton is and how it is spoken to: host, port, TLS, what is sent with each call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from gateway.addresses import host_and_port, split_address
from gateway.settings.values import METADATA, Tls

if TYPE_CHECKING:
    from collections.abc import Mapping


MOST_STREAMS = 100_000
"""A capacity above this is a slip: it would have one Triton get what others should."""


class DiscoveryError(Exception):
    """The addresses cannot be told now; the message says why and never holds a secret."""


@dataclass(frozen=True, slots=True)
class Address:
    """One Triton; `id` is its name in figures and log lines.

    `server_name` is the name in its certificate where that is not the host; `capacity` how many
    streams it takes at once. `metadata` may be secret, so it is never shown.
    """

    id: str
    host: str
    port: int
    tls: Tls = "off"
    server_name: str = ""
    metadata: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    capacity: int = 16
    metrics: str | None = None
    """host:port of its metrics page, where that is known."""

    @property
    def target(self) -> str:
        """host:port, as gRPC wants it."""
        return host_and_port(self.host, self.port)


class Entry(BaseModel):
    """An address as a file or a registry writes it; what is left out is as the settings say."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    address: str
    id: str = ""
    tls: Tls | None = None
    server_name: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    capacity: int | None = Field(default=None, ge=1, le=MOST_STREAMS)
    metrics: str | None = None

    @field_validator("metadata")
    @classmethod
    def _fits_headers(cls, value: dict[str, str]) -> dict[str, str]:
        for number, (name, content) in enumerate(value.items(), 1):
            # gRPC refuses others in each call, which would be an outage that nobody explains.
            if not METADATA.fullmatch(f"{name}={content}"):
                raise ValueError(
                    f"pair {number} must have a name in lower case and a value of visible ASCII"
                )
        return value


@dataclass(frozen=True, slots=True)
class Defaults:
    """What an address has where nothing else is said of it, from the settings."""

    tls: Tls = "off"
    server_name: str = ""
    capacity: int = 16

    def address(self, host: str, port: int, name: str = "") -> Address:
        """Return the address of host and port."""
        name = name or host_and_port(host, port)
        return Address(name, host, port, self.tls, self.server_name, (), self.capacity)

    def read(self, entry: Mapping[str, Any]) -> Address:
        """Read an Entry; raises DiscoveryError that names the field.

        TLS that the settings ask for cannot be lowered or exchanged here: who may write a list
        of addresses must not be able to have the secrets sent to a server that nobody checks.
        """
        try:
            given = Entry.model_validate(dict(entry))
            host, port = split_address(given.address)
            if given.metrics is not None:
                split_address(given.metrics)
        except ValidationError as error:
            raise DiscoveryError("; ".join(map(_problem, error.errors()))) from error
        except ValueError as error:
            raise DiscoveryError(f"{_addresses(given)} {error}") from error
        tls = self.tls if given.tls is None else given.tls
        if self.tls not in ("off", tls):
            raise DiscoveryError(f"tls is {tls!r}, but SPEECH_TRITON_TLS asks for {self.tls!r}")
        return Address(
            id=given.id or host_and_port(host, port),
            host=host,
            port=port,
            tls=tls,
            server_name=self.server_name if given.server_name is None else given.server_name,
            metadata=tuple(sorted(given.metadata.items())),
            capacity=given.capacity or self.capacity,
            metrics=given.metrics,
        )


def _problem(of: Any) -> str:
    name = ".".join(map(str, of["loc"]))
    if of["type"] == "extra_forbidden":
        return f"{name}: there is no such key; there are {', '.join(Entry.model_fields)}"
    return f"{name}: {of['msg']}"


def _addresses(given: Entry) -> str:
    metrics = "" if given.metrics is None else f" and metrics {given.metrics!r}"
    return f"address {given.address!r}{metrics}"
