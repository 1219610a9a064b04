"""The settings of the HTTP service: where it listens, and to whom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode

from gateway.keys import ApiKey, KeyFile, check_distinct, parse_keys
from gateway.settings.values import HOST, Listed

ROOT_PATH = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s*?#@A-Z]+")
OWN_PATHS = ("v1", "audio", "docs", "redoc", "openapi.json", "livez", "readyz", "health", "metrics")


class HttpSettings(BaseSettings):
    """The settings of the HTTP service: where it listens, and to whom."""

    host: str = "127.0.0.1"
    """Address the HTTP service listens on."""
    port: int = Field(default=8080, ge=0, le=65535)
    """Port of the HTTP service."""
    root_path: str = ""
    """Path that the service has behind a proxy (`/tts`), whether or not that takes it off."""
    api_keys: Annotated[tuple[ApiKey, ...], NoDecode] = ()
    """Keys that open the service: `name:key` or `key`, separated by commas. None: open to all."""
    api_keys_file: Annotated[KeyFile | None, NoDecode] = None
    """File with more of them, `name key` or `key` on each line."""
    open_without_key: Listed[Literal["lists", "docs", "metrics"]] = ("lists", "docs", "metrics")
    """What may be read without a key, besides the probes."""
    cors_origins: Listed[str] = ()
    """Origins of pages that may use the service from a browser, separated by commas; `*`: all."""
    client_api_key: SecretStr = SecretStr("")
    """The key that `say` and `bench` send."""
    max_body_bytes: int = Field(default=1_048_576, ge=1024)
    """Largest request body that is read."""
    shutdown_grace_seconds: float = Field(default=10.0, ge=0)
    """How long running streams may go on after the service is told to stop."""

    @field_validator("host")
    @classmethod
    def _is_host(cls, value: str) -> str:
        if not HOST.fullmatch(value):
            raise ValueError("must be an address of this machine: 127.0.0.1, or 0.0.0.0 for all")
        return value

    @field_validator("api_keys", mode="before")
    @classmethod
    def _parse_keys(cls, value: object) -> object:
        return parse_keys(value) if isinstance(value, str) else value

    @field_validator("api_keys_file", mode="before")
    @classmethod
    def _read_keys(cls, value: Any, others: ValidationInfo) -> object:
        if value is None or value == "":
            return None
        file = value if isinstance(value, KeyFile) else KeyFile.read(Path(value))
        known = list(others.data.get("api_keys", ()))
        for key in file.keys:
            known.append(key)
            check_distinct(known)
        return file

    @property
    def known_keys(self) -> tuple[ApiKey, ...]:
        """All keys that open the service; without any it is open to everyone."""
        return (*self.api_keys, *(self.api_keys_file.keys if self.api_keys_file else ()))

    @field_validator("client_api_key")
    @classmethod
    def _fits_a_header(cls, value: SecretStr) -> SecretStr:
        key = value.get_secret_value()
        if any(not "!" <= character <= "~" for character in key):
            raise ValueError("must be visible ASCII")
        return value

    @field_validator("root_path")
    @classmethod
    def _is_prefix(cls, value: str) -> str:
        if value and not ROOT_PATH.fullmatch(value):
            raise ValueError("must be empty or like /tts or /apps/tts, without a slash at the end")
        if value.split("/")[1:2] and value.split("/")[1] in OWN_PATHS:
            raise ValueError(f"must not begin like an address of the service: {OWN_PATHS}")
        return value

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if origin != "*" and not ORIGIN.fullmatch(origin):
                raise ValueError(
                    f"{origin!r} is no origin; it must be scheme://host or scheme://host:port as "
                    "browsers send it (lower case, no path, no slash at the end), or *"
                )
        return value
