"""How the text of a variable becomes a value."""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import BeforeValidator
from pydantic_settings import NoDecode

T = TypeVar("T")


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(filter(None, (name.strip() for name in value.split(","))))
    return value


def _empty_is_none(value: object) -> object:
    return None if value == "" else value


Listed = Annotated[tuple[T, ...], NoDecode, BeforeValidator(_split)]
"""Values that are separated by commas in a variable."""
Maybe = Annotated[T | None, BeforeValidator(_empty_is_none)]
"""A value, or None where the variable is empty."""
Tls: TypeAlias = Literal["off", "system", "private"]
"""Plaintext; a certificate that the machine trusts; one of our own authority."""

METADATA = re.compile(r"([a-z0-9_.-]+)=([!-~]+)")
"""What gRPC takes as a name and a value that are sent with each call."""

HOST = re.compile(r"[A-Za-z0-9_.:%-]+")
"""A name of a host, or an IP address."""
MODEL = re.compile(r"[^\x00-\x20\x7f/\\,]{1,256}")
"""A name of Triton's models, which are folders."""
DICT = re.compile(r"[A-Za-z0-9._-]{1,63}")
"""A name of a Dict on Modal."""
