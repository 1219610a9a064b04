"""Who may call a Triton: TLS, a secret, and the addresses that are refused without them."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import EngineError
from speech_wire import LoopbackAccess

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "triton-grpc-protocol-"
CALLERS = "speech"
"""Callers send the secret in the header `triton-grpc-protocol-speech`."""

PROTECTED = "inference,metadata,model-config,statistics"
"""What the secret opens. Health stays open: balancers and Kubernetes ask without a header."""

SHORTEST_SECRET = 16


@dataclass(frozen=True)
class Tls:
    """PEM files of a server; `client_root` is whose clients are let in, None for all.

    `root` is who signed `certificate`, None if it did itself; `name` is a name in it. With
    `client_root`, the server's own certificate is also what its models show, unless they have
    one of their own.
    """

    certificate: Path
    key: Path
    root: Path | None = None
    client_root: Path | None = None
    own_certificate: Path | None = None
    own_key: Path | None = None
    name: str = "localhost"

    def files(self) -> list[Path]:
        """Return all that there are."""
        roots = (self.root, self.client_root)
        own = (self.own_certificate, self.own_key)
        given = (self.certificate, self.key, *roots, *own)
        return [path for path in given if path is not None]

    def flags(self) -> list[str]:
        """Return tritonserver's."""
        flags = [
            "--grpc-use-ssl=true",
            f"--grpc-server-cert={self.certificate.resolve()}",
            f"--grpc-server-key={self.key.resolve()}",
        ]
        if self.client_root is not None:
            flags += [
                "--grpc-use-ssl-mutual=true",
                f"--grpc-root-cert={self.client_root.resolve()}",
            ]
        return flags


@dataclass(frozen=True, slots=True)
class Access:
    """What a caller needs. Nothing, unless there is `tls` or a `secret`."""

    tls: Tls | None = None
    secret: str | None = None

    def check(self, host: str, *, is_insecure: bool) -> None:
        """Raise EngineError for an address where others could call, or listen to a secret."""
        if self.secret is not None:
            check_secret(self.secret)
        if is_loopback(host) or is_insecure:
            return
        if self.tls is not None and (self.tls.client_root or self.secret):
            return
        if self.tls is not None:
            fault = "TLS alone lets all of them call"
        elif self.secret is not None:
            fault = "without TLS the secret and the texts travel in clear"
        else:
            fault = "whoever can call this Triton may use it"
        raise EngineError(
            f"others can reach {host}, and {fault}: give it --tls-certificate and --tls-key with "
            "--tls-client-root (mutual TLS) or with --secret-file, or keep it on 127.0.0.1; in a "
            "private network, --insecure"
        )

    def flags(self) -> list[str]:
        """Return tritonserver's."""
        flags = self.tls.flags() if self.tls else []
        if self.secret is not None:
            flags.append(f"--grpc-restricted-protocol={PROTECTED}:{CALLERS}={self.secret}")
        return flags

    def loopback(self) -> LoopbackAccess:
        """Return what this machine's own calls need."""
        headers = {} if self.secret is None else {f"{HEADER}{CALLERS}": self.secret}
        tls = self.tls
        if tls is None:
            return LoopbackAccess(headers=headers)
        shown = (tls.own_certificate or tls.certificate, tls.own_key or tls.key)
        certificate, key = (str(path.resolve()) for path in shown)
        return LoopbackAccess(
            root=str((tls.root or tls.certificate).resolve()),
            certificate=certificate if tls.client_root else None,
            key=key if tls.client_root else None,
            name=tls.name,
            headers=headers,
        )


def check_secret(secret: str) -> None:
    """Raise EngineError for what is easily guessed, or cannot be sent."""
    if len(secret) < SHORTEST_SECRET:
        raise EngineError(
            f"the secret has {len(secret)} characters, {SHORTEST_SECRET} at least "
            "are needed; `openssl rand -hex 32` makes one"
        )
    if not (secret.isascii() and secret.isprintable()):
        raise EngineError(
            "the secret has characters that no header can carry; take letters and "
            "digits, `openssl rand -hex 32` makes some"
        )


def is_private(host: str) -> bool:
    """Whether all that this name or address leads to is this machine or a private network.

    Raises EngineError for a name that leads nowhere.
    """
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise EngineError(f"{host!r} cannot be resolved: {error.strerror}") from error
    addresses = [ipaddress.ip_address(str(each).partition("%")[0]) for each in found]
    # An IPv4 address in IPv6's clothes counts as what it is.
    plain = [getattr(each, "ipv4_mapped", None) or each for each in addresses]
    return not any(each.is_global for each in plain)


def is_loopback(host: str) -> bool:
    """Whether this machine alone reaches the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
