"""Whether PEM does what it is given for, told by a handshake of TLS with ourselves, in memory.

So OpenSSL decides, by the rules of a real connection, before there is one.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal, NoReturn, TypeAlias

Side: TypeAlias = Literal["server", "client"]

FLIGHTS = 5
"""No handshake has more of them."""
EXPIRED, NOT_YET_VALID, WRONG_PURPOSE = 10, 9, 26
"""OpenSSL's (X509_V_ERR_…)."""
NOT_ITS_KEY = ("KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""OpenSSL's, of another key and of one of another kind."""


class CertificateError(ValueError):
    """Says in one sentence what is wrong with which PEM, and never holds it."""


@dataclass(frozen=True, slots=True)
class Part:
    """PEM that somebody gave; `name` is what errors call it."""

    name: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Pair:
    """What one side shows: a certificate, with those up to its authority's, and its key."""

    side: Side
    certificate: Part
    key: Part


def check_authority(authority: Part) -> None:
    """Raise CertificateError where nobody can be judged by it: no certificate, or an old one.

    That it is no authority is no fault: a certificate that signed itself stands for itself.
    """
    known = _trusting(ssl.PROTOCOL_TLS_CLIENT, authority).get_ca_certs()
    ends = [_time(str(one["notAfter"])) for one in known if isinstance(one, dict)]
    if ends and max(ends) < datetime.now(timezone.utc):
        raise CertificateError(f"{authority.name} expired on {max(ends):%Y-%m-%d}")


def check_pair(pair: Pair) -> datetime:
    """Return when its certificate expires; raises CertificateError.

    It must be PEM, the key that of the certificate, valid now, and for the side that shows it.
    """
    return _time(_believed(pair, pair.certificate)["notAfter"])


def check_signed(pair: Pair, authority: Part) -> None:
    """Raise CertificateError where those that trust this authority will not believe the pair."""
    _believed(pair, authority)


def check_name(pair: Pair, name: str) -> None:
    """Raise CertificateError where those that call a server by this name will not believe it."""
    try:
        _believed(pair, pair.certificate, name)
    except ValueError as error:
        names = _believed(pair, pair.certificate).get("subjectAltName", ())
        told = ", ".join(value for _, value in names) or "no name at all"
        raise CertificateError(f"{pair.certificate.name} is for {told}, not {name!r}") from error


def _believed(pair: Pair, authority: Part, name: str = "") -> dict[str, Any]:
    """Return what the other side knows of a certificate once it has believed it."""
    own, other = ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT
    if pair.side == "client":
        own, other = other, own
    _trusting(other, pair.certificate)
    shows, judges = _trusting(own, authority), _trusting(other, authority)
    judges.verify_mode, judges.check_hostname = ssl.CERT_REQUIRED, bool(name)
    _show(shows, pair)
    if pair.side == "client":
        # Somebody must be the server, and nobody looks at it.
        _show(judges, pair)
    try:
        return _meet(shows, judges, name)
    except ssl.SSLCertVerificationError as error:
        raise CertificateError(_words(error, pair, authority)) from error
    except ssl.SSLError as error:
        raise CertificateError(f"{pair.certificate.name} is not taken: {error}") from error


def _trusting(protocol: int, authority: Part) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    # As gRPC has it: who trusts a certificate need not know those above it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # How long a key must be is for gRPC to say, whose rules are others.
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    try:
        context.load_verify_locations(cadata=authority.content.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"{authority.name} is no certificate in PEM") from error
    return context


def _show(context: ssl.SSLContext, pair: Pair) -> None:
    """Have one side show the pair; the ssl module reads it from a file, which is none on a disk."""
    certificate, key = pair.certificate, pair.key
    with os.fdopen(os.memfd_create("pair"), "wb") as file:
        file.write(certificate.content + b"\n" + key.content)
        file.flush()
        try:
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=_refuse_password)
        except _EncryptedError as error:
            raise CertificateError(f"{key.name} has a passphrase; give it without") from error
        except ssl.SSLError as error:
            is_other = error.reason in NOT_ITS_KEY
            fault = f"not the key of {certificate.name}" if is_other else "no private key in PEM"
            raise CertificateError(f"{key.name} is {fault}") from error


class _EncryptedError(Exception):
    """OpenSSL wants to ask for a passphrase."""


def _refuse_password() -> NoReturn:
    raise _EncryptedError


def _meet(shows: ssl.SSLContext, judges: ssl.SSLContext, name: str) -> dict[str, Any]:
    """Shake hands; return what the judging side knows of the other; raises ssl.SSLError."""
    out, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    is_server = judges.protocol is ssl.PROTOCOL_TLS_SERVER
    judge = judges.wrap_bio(out, back, is_server, name or None)
    shower = shows.wrap_bio(back, out, not is_server)
    for _ in range(FLIGHTS):
        for side in (shower, judge):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return judge.getpeercert() or {}


def _words(error: ssl.SSLCertVerificationError, pair: Pair, authority: Part) -> str:
    name = pair.certificate.name
    if error.verify_code == WRONG_PURPOSE:
        return f"{name} is not for a {pair.side} (its extended key usage)"
    if authority is not pair.certificate:
        return f"{name} is not signed by {authority.name} ({error.verify_message})"
    if error.verify_code == EXPIRED:
        return f"{name} has expired"
    if error.verify_code == NOT_YET_VALID:
        now = datetime.now(timezone.utc)
        return f"{name} is not valid yet; it is {now:%Y-%m-%d %H:%M} UTC here"
    return f"{name} is not taken: {error.verify_message}"


def _time(text: str) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), timezone.utc)
