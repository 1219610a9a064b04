"""The security of the way to a Triton: who is there, who we are, what may be sent at all."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from gateway.addresses import is_private
from gateway.backend.certificates import Certificates
from gateway.backend.discovery.dns import Resolve, resolve_all
from gateway.errors import BackendUnavailableError, MisconfiguredError
from gateway.settings import SettingsError
from speech_wire.certificates import CertificateError

if TYPE_CHECKING:
    from gateway.backend.addresses import Address
    from gateway.pem import Pem
    from gateway.settings import Settings

CHANNEL_OPTIONS = [
    # Raw stubs keep gRPC's 4 MiB limit, 43 s of 24 kHz float32.
    ("grpc.max_receive_message_length", 2**31 - 1),
    ("grpc.max_send_message_length", 2**31 - 1),
    # gRPC's own back-off grows to two minutes; a Triton restarts in seconds.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Channels with equal targets and options would share a connection, and its end.
    ("grpc.use_local_subchannel_pool", 1),
]
SYSTEM_ROOTS = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
"""Debian's and Fedora's, where OpenSSL itself names no file that exists."""


@dataclass(frozen=True, slots=True)
class Security:
    """The certificates and secrets of the settings, and where they may go.

    gRPC sends metadata after the handshake, so with TLS a server has proved who it is before it
    sees any secret. Without TLS, secrets go to private addresses only, whatever is permitted.
    """

    certificates: Certificates = field(default_factory=Certificates)
    metadata: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    allows_public_plaintext: bool = False
    resolve: Resolve = resolve_all

    @classmethod
    def of(cls, settings: Settings) -> Security:
        """Read it from the settings; raises SettingsError where they do not go together.

        That goes for certificates, too, which no Triton would take.
        """
        if settings.triton_tls == "private" and settings.triton_ca is None:
            raise SettingsError("SPEECH_TRITON_CA must be given where SPEECH_TRITON_TLS is private")
        try:
            certificates = Certificates.of(settings)
        except CertificateError as error:
            raise SettingsError(str(error)) from error
        return cls(
            certificates=certificates,
            metadata=settings.metadata_pairs,
            allows_public_plaintext=settings.triton_plaintext == "any",
        )

    def open_channel(self, address: Address, connect_seconds: float) -> Any:
        """Return a channel of its own for the address; raises MisconfiguredError."""
        # Despite its name, the first is how long gRPC gives an attempt to connect (else 20 s).
        options: list[tuple[str, Any]] = [
            ("grpc.min_reconnect_backoff_ms", round(connect_seconds * 1000)),
            *CHANNEL_OPTIONS,
        ]
        if address.tls == "off":
            return grpc.aio.insecure_channel(address.target, options)
        if address.server_name:
            options.append(("grpc.ssl_target_name_override", address.server_name))
        return grpc.aio.secure_channel(address.target, self._credentials(address), options)

    def metadata_for(self, address: Address) -> tuple[tuple[str, str], ...]:
        """Return what each call to the address carries; secret."""
        return (*self.metadata, *address.metadata)

    async def check(self, address: Address) -> None:
        """Raise MisconfiguredError where plaintext, or secrets in it, may not go.

        A name is looked up each time, since its addresses may be others than the last time;
        raises BackendUnavailableError where it has none.
        """
        if address.tls != "off":
            return
        has_secrets = bool(self.metadata_for(address))
        if self.allows_public_plaintext and not has_secrets:
            return
        if await self._is_private(address.host):
            return
        what = "SPEECH_TRITON_METADATA, which is secret, is" if has_secrets else "plaintext is"
        way = "" if has_secrets else "; SPEECH_TRITON_PLAINTEXT=any permits it"
        raise MisconfiguredError(
            f"{what} not sent to an address of the internet; set SPEECH_TRITON_TLS{way}",
            detail=address.target,
        )

    async def _is_private(self, host: str) -> bool:
        known = is_private(host)
        if known is not None:
            return known
        try:
            return all(is_private(ip) for ip in await self.resolve(host))
        except OSError as error:
            raise BackendUnavailableError(
                "the name of Triton's host cannot be resolved", detail=f"{host}: {error}"
            ) from error

    def _credentials(self, address: Address) -> grpc.ChannelCredentials:
        held = self.certificates
        if address.tls == "private" and held.ca is None:
            raise MisconfiguredError("tls is private for a Triton, but SPEECH_TRITON_CA is not set")
        roots = _content(held.ca) if address.tls == "private" else system_roots()
        pair = _content(held.client_key), _content(held.client_cert)
        return grpc.ssl_channel_credentials(roots, *pair)


def system_roots() -> bytes | None:
    """Return the certificates that this machine trusts; None, gRPC's own, where it has none."""
    named = ssl.get_default_verify_paths().cafile  # It knows SSL_CERT_FILE.
    for path in (named, *SYSTEM_ROOTS):
        if path and Path(path).is_file():
            return Path(path).read_bytes()
    return None


def _content(pem: Pem | None) -> bytes | None:
    return None if pem is None else pem.content
