"""A certificate authority of one's own for the way between gateway and Triton, and its pairs.

Whoever holds `ca-key.pem` can be Triton to every gateway that trusts `ca.pem`: neither needs it
to run, so keep it elsewhere.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from engine.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Key: TypeAlias = ec.EllipticCurvePrivateKey
Files: TypeAlias = "dict[str, tuple[bytes, int]]"
"""Content and mode by name."""
HOST = re.compile(r"(\*\.)?([\w-]{1,63}\.)*(?!\d+$)\w([\w-]{0,61}\w)?", re.ASCII)
"""Names that DNS, compose and Kubernetes have; the last part of one is no number."""
MAX_NAME = 253
DEFAULT_NAMES = ("triton.internal", "localhost", "127.0.0.1", "::1")
CA_LIFETIME = timedelta(days=3650)
LEAF_LIFETIME = timedelta(days=365)
"""Long enough to be replaced once a year by a person, short enough to be practised."""
CLOCK_SKEW = timedelta(minutes=10)
USAGES = {"server": ExtendedKeyUsageOID.SERVER_AUTH, "client": ExtendedKeyUsageOID.CLIENT_AUTH}


@dataclass(frozen=True)
class Signed:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: Key

    def files(self, name: str) -> Files:
        """Return `name`.pem and `name`-key.pem, the key only for its owner."""
        pem = self.certificate.public_bytes(serialization.Encoding.PEM)
        key_pem = self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return {f"{name}-key.pem": (key_pem, 0o600), f"{name}.pem": (pem, 0o644)}


def make(folder: Path, names: Sequence[str], now: datetime) -> None:
    """Make an authority, and pairs for Triton and gateway; raises EngineError if there is one."""
    if any((folder / name).exists() for name in ("ca.pem", "ca-key.pem")):
        raise EngineError(f"{folder} has an authority already; --rotate makes new pairs with it")
    _check(names)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = _authority(now)
    _write(folder, authority.files("ca") | _pairs(authority, names, now))


def rotate(folder: Path, names: Sequence[str] | None, now: datetime) -> None:
    """Replace both pairs; those made before stay good until they expire. Raises EngineError.

    Without names, Triton's new certificate has those of the old.
    """
    authority = _read(folder)
    names = names or _names(folder / "server.pem")
    if authority.certificate.not_valid_after_utc <= now:
        raise EngineError(f"{folder / 'ca.pem'} has expired; make a new authority elsewhere")
    _check(names)
    _write(folder, _pairs(authority, names, now))


def _pairs(authority: Signed, names: Sequence[str], now: datetime) -> Files:
    server = _leaf(authority, "server", names, now).files("server")
    return server | _leaf(authority, "client", ["speech-gateway"], now).files("client")


def _authority(now: datetime) -> Signed:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("speech-gateway private CA")
    builder = _builder(name, name, key, now, now + CA_LIFETIME)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(is_ca=True), critical=True)
    return Signed(builder.sign(key, hashes.SHA256()), key)


def _leaf(authority: Signed, role: str, names: Sequence[str], now: datetime) -> Signed:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate
    ends = min(now + LEAF_LIFETIME, issuer.not_valid_after_utc)
    builder = _builder(_name(names[0]), issuer.subject, key, now, ends)
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(is_ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([USAGES[role]]), critical=False)
        .add_extension(x509.SubjectAlternativeName([*map(_general, names)]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
    )
    return Signed(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins - CLOCK_SKEW)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _key_usage(*, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _check(names: Sequence[str]) -> None:
    """Raise EngineError for what is no name of a host, before anything is written."""
    for name in names:
        try:
            ip_address(name)
        except ValueError:
            if not HOST.fullmatch(name) or len(name) > MAX_NAME:
                raise EngineError(
                    f"--name {name!r} is no host name and no IP address; give one without a "
                    "scheme and a port, such as triton.internal or 10.0.0.5"
                ) from None


def _read(folder: Path) -> Signed:
    try:
        certificate = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
        key = serialization.load_pem_private_key((folder / "ca-key.pem").read_bytes(), None)
    except OSError as error:
        raise EngineError(f"{error.filename}: {error.strerror}; new pairs need both") from error
    except ValueError as error:
        raise EngineError(f"{folder}: ca.pem or ca-key.pem cannot be read: {error}") from error
    if key.public_key() != certificate.public_key():
        raise EngineError(f"{folder}: ca-key.pem is not the key of ca.pem")
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise EngineError(f"{folder / 'ca-key.pem'} is not a key of this program's kind (EC)")
    return Signed(certificate, key)


def _names(path: Path) -> list[str]:
    """Return the names that a certificate is for; raises EngineError where that cannot be told."""
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        kind = x509.SubjectAlternativeName
        names = certificate.extensions.get_extension_for_class(kind).value
    except FileNotFoundError as error:
        raise EngineError(
            f"{path} is not there, so that the names that it had are not known; give them with "
            "--name"
        ) from error
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        raise EngineError(f"{path} does not tell its names; give them with --name") from error
    return [str(name.value) for name in names]


def _write(folder: Path, files: Files) -> None:
    """Write all of them or none, so that a full disk leaves no authority without its pairs."""
    beside = {folder / name: folder / f".{name}.new" for name in files}
    try:
        for (content, mode), new in zip(files.values(), beside.values(), strict=True):
            _write_whole(new, content, mode)
    except OSError:
        for new in beside.values():
            new.unlink(missing_ok=True)
        raise
    for path, new in beside.items():
        new.replace(path)


def _write_whole(path: Path, content: bytes, mode: int) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
