"""The certificates of the way to Triton, which may be replaced while the service runs."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.pem import Pem
from speech_wire.certificates import CertificateError, Pair, Part, check_authority, check_pair

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from gateway.settings import Settings

log = logging.getLogger("speech.replicas")

CA, CLIENT_CERT, CLIENT_KEY = (
    f"SPEECH_TRITON_{name}" for name in ("CA", "CLIENT_CERT", "CLIENT_KEY")
)


@dataclass(frozen=True, slots=True)
class Certificates:
    """What Tritons are judged by, and what they are shown, as it was read last."""

    ca: Pem | None = None
    client_cert: Pem | None = None
    client_key: Pem | None = None

    @classmethod
    def of(cls, settings: Settings) -> Certificates:
        """Take those of the settings; raises CertificateError for what no Triton would take."""
        given = cls(settings.triton_ca, settings.triton_client_cert, settings.triton_client_key)
        given._check()
        return given

    @property
    def are_files(self) -> bool:
        """Whether any may be replaced."""
        held = (self.ca, self.client_cert, self.client_key)
        return any(pem is not None and pem.is_file for pem in held)

    def reread(self) -> Certificates:
        """Return what the files hold now, checked if it is something else; raises CertificateError.

        Two files cannot be replaced at once: in between, they do not belong together.
        """
        now = Certificates(
            _reread(self.ca, CA, "CERTIFICATE"),
            _reread(self.client_cert, CLIENT_CERT, "CERTIFICATE"),
            _reread(self.client_key, CLIENT_KEY, "PRIVATE KEY"),
        )
        if now == self:
            return self
        now._check()
        return now

    def _check(self) -> None:
        if self.ca is not None:
            check_authority(_part(CA, self.ca))
        if (self.client_cert is None) != (self.client_key is None):
            raise CertificateError(f"{CLIENT_CERT} and {CLIENT_KEY} are a pair")
        if self.client_cert is not None and self.client_key is not None:
            shown, key = _part(CLIENT_CERT, self.client_cert), _part(CLIENT_KEY, self.client_key)
            check_pair(Pair("client", shown, key))


async def follow(
    held: Certificates, every_seconds: float
) -> AsyncGenerator[tuple[Certificates, str], None]:
    """Read the files again and again; yield what holds now, and why not what is in them, if so."""
    problem = ""
    while True:
        await asyncio.sleep(every_seconds)
        before, problem = problem, ""
        try:
            now = await asyncio.to_thread(held.reread)
        except CertificateError as error:
            now, problem = held, str(error)
        if problem and problem != before:
            log.warning("certificates.kept", extra={"fields": {"reason": problem}})
        if before and not problem:
            log.info("certificates.work_again")
        if now is not held:
            log.info("certificates.changed")
        held = now
        yield held, problem


def _part(name: str, pem: Pem) -> Part:
    return Part(f"{name} {pem}", pem.content)


def _reread(pem: Pem | None, name: str, kind: str) -> Pem | None:
    if pem is None or not pem.is_file:
        return pem
    try:
        return Pem.read(pem.origin, kind)
    except ValueError as error:
        raise CertificateError(f"{name} {pem} {error}") from error
