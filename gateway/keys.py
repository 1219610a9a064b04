"""API keys: read from a setting or a file, kept as digests, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003  pydantic reads the annotations of KeyFile
from typing import TYPE_CHECKING

from gateway.speech.types import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MIN_KEY_CHARACTERS = 8
# Names go into log lines, keys into a header.
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
KEY = re.compile(rf"[!-~]{{{MIN_KEY_CHARACTERS},}}")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key that opens the service: its name, and the digest that is left of it."""

    name: str
    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, name: str, key: str) -> ApiKey:
        """Keep the digest of a key; raises ValueError that says what is wrong, never the key."""
        if not NAME.fullmatch(name) or name == ANONYMOUS:
            raise ValueError(
                "a name has 1 to 64 letters, digits, dots, dashes and underscores, and is not "
                f"'{ANONYMOUS}'"
            )
        if not KEY.fullmatch(key):
            raise ValueError(
                f"a key has at least {MIN_KEY_CHARACTERS} characters, all of them visible ASCII"
            )
        return cls(name, _digest(key.encode()))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The keys of a file, read once."""

    path: Path
    keys: tuple[ApiKey, ...]

    @classmethod
    def read(cls, path: Path) -> KeyFile:
        """Read `name key` or `key` from each line; raises ValueError that names the line."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise ValueError(f"cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ValueError("is not UTF-8") from error
        keys: list[ApiKey] = []
        for number, line in enumerate(lines, 1):
            words = line.split()
            if words and not line.lstrip().startswith("#"):
                try:
                    keys.append(_key_of_line(words, number))
                    check_distinct(keys)
                except ValueError as error:
                    raise ValueError(f"line {number}: {error}") from error
        if not keys:
            raise ValueError("holds no key: the service would be open to everyone")
        return cls(path, tuple(keys))

    def __str__(self) -> str:
        return str(self.path)


def parse_keys(text: str) -> tuple[ApiKey, ...]:
    """Read `name:key` or `key`, separated by commas; raises ValueError that names the entry."""
    keys: list[ApiKey] = []
    for number, entry in enumerate(text.split(","), 1):
        name, colon, key = entry.strip().partition(":")
        if name or colon:
            try:
                keys.append(ApiKey.of(*(name, key) if colon else (f"key-{number}", name)))
                check_distinct(keys)
            except ValueError as error:
                raise ValueError(f"entry {number}: {error}") from error
    if text.strip() and not keys:
        raise ValueError("holds no key: the service would be open to everyone")
    return tuple(keys)


def check_distinct(keys: Sequence[ApiKey]) -> None:
    """Raise ValueError if the last of the keys, or its name, is there already."""
    for key in keys[:-1]:
        if key.name == keys[-1].name:
            raise ValueError(f"the name '{key.name}' is there twice")
        if key.digest == keys[-1].digest:
            raise ValueError(f"'{keys[-1].name}' has the same key as '{key.name}'")


def find_key(keys: Iterable[ApiKey], given: bytes) -> ApiKey | None:
    """Return the key that was given; takes as long whichever it is, and if it is none."""
    digest = _digest(given)
    found = None
    for key in keys:
        if hmac.compare_digest(key.digest, digest):
            found = key
    return found


def _key_of_line(words: list[str], number: int) -> ApiKey:
    match words:
        case [key]:
            return ApiKey.of(f"line-{number}", key)
        case [name, key]:
            return ApiKey.of(name, key)
    raise ValueError("must be 'name key' or 'key'; a comment has a line of its own")


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
