"""The TLS files of a Triton: checked before it reads them, looked after while it runs."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from engine.errors import EngineError
from speech_wire.certificates import (
    CertificateError,
    Pair,
    Part,
    check_authority,
    check_name,
    check_pair,
    check_signed,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.access import Tls

LOOK_EVERY = timedelta(minutes=1)
SAY_EVERY = timedelta(days=1)
SOON = timedelta(days=30)
"""How long before a certificate expires that is said."""

log = logging.getLogger(__name__)


def read_part(option: str, path: Path) -> Part:
    """Read the file of an option; raises EngineError."""
    try:
        return Part(f"{option} {path}", path.read_bytes())
    except OSError as error:
        raise EngineError(f"{option} {path} cannot be read: {error.strerror}") from error


def check_files(tls: Tls) -> dict[Path, datetime]:
    """Return when each certificate that is shown expires; raises EngineError for what is wrong.

    That is what Triton or its own models would only fail at, without saying why.
    """
    key = read_part("--tls-key", tls.key)
    server = Pair("server", read_part("--tls-certificate", tls.certificate), key)
    try:
        expires = {tls.certificate: check_pair(server)}
        if tls.root is not None:
            root = read_part("--tls-root", tls.root)
            check_authority(root)
            check_signed(server, root)
        _check_name(server, tls.name)
        return expires | _check_own(tls)
    except CertificateError as error:
        raise EngineError(str(error)) from error


def _check_name(server: Pair, name: str) -> None:
    try:
        check_name(server, name)
    except CertificateError as error:
        hint = "--tls-name says which of them Triton's own models call it by"
        raise CertificateError(f"{error}; {hint}") from error


def _check_own(tls: Tls) -> dict[Path, datetime]:
    """Look at what models show to their own server, which asks for it under mutual TLS."""
    if tls.client_root is None:
        return {}
    root = read_part("--tls-client-root", tls.client_root)
    check_authority(root)
    option = "--tls-" if tls.own_certificate is None else "--tls-own-"
    path, key = tls.own_certificate or tls.certificate, tls.own_key or tls.key
    own = Pair("client", read_part(f"{option}certificate", path), read_part(f"{option}key", key))
    try:
        expires = check_pair(own)
        check_signed(own, root)
    except CertificateError as error:
        if tls.own_certificate is not None:
            raise
        hint = "models show it to their own server unless there is --tls-own-certificate"
        raise CertificateError(f"{error}; {hint}") from error
    return {path: expires}


def _now() -> datetime:
    return datetime.now(timezone.utc)


class TlsFiles:
    """Those that a tritonserver reads when it starts, and never again."""

    def __init__(self, tls: Tls, clock: Callable[[], datetime] = _now) -> None:
        self._tls = tls
        self._clock = clock
        self._expires: dict[Path, datetime] = {}
        self._loaded: dict[Path, bytes | None] = {}
        self._told = self._loaded
        self._look_at = self._say_at = clock()

    def load(self) -> None:
        """Take what is there as what the server reads now; raises EngineError, see check_files."""
        self._loaded = self._told = self._content()
        self._expires = check_files(self._tls)

    def look(self) -> None:
        """Say, once, what is another file now, and once a day what will expire soon."""
        now = self._clock()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY
        content = self._content()
        if content not in (self._loaded, self._told):
            changed = [str(path) for path, held in content.items() if held != self._loaded[path]]
            detail = "Triton runs with what it read when it started, and has to be started anew"
            log.warning("engine.tls_files_changed files=%s detail=%r", ",".join(changed), detail)
        self._told = content
        soon = {path: at for path, at in self._expires.items() if at - now < SOON}
        if now < self._say_at or not soon:
            return
        self._say_at = now + SAY_EVERY
        for path, at in soon.items():
            log.warning("engine.certificate_expires file=%s on=%s", path, at.date())

    def _content(self) -> dict[Path, bytes | None]:
        return {path: path.read_bytes() if path.is_file() else None for path in self._tls.files()}
