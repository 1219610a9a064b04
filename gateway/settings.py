"""All settings of the gateway; the only reader of the environment."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from dotenv import dotenv_values
from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from gateway.keys import ApiKey, KeyFile, check_distinct, parse_keys
from gateway.text.policy import Urls

PREFIX = "SPEECH_"
ENV_FILE = ".env"
ROOT_PATH = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s*?#@A-Z]+")
OWN_PATHS = ("v1", "audio", "docs", "redoc", "openapi.json", "livez", "readyz", "health", "metrics")
SECRETS = ("api_keys", "client_api_key")


class SettingsError(Exception):
    """A setting is wrong; the message names it and what fits."""


def _user_cache() -> Path | None:
    """Return the directory of the XDG specification, None for a user without a home."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        # The specification says to ignore a relative path.
        return (base if base.is_absolute() else Path.home() / ".cache") / "speech-gateway"
    except RuntimeError:
        return None


class Settings(BaseSettings):
    """The effective settings: flags override the environment, which overrides `.env`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=ENV_FILE,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,  # It may be a key.
    )

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
    open_without_key: Annotated[tuple[Literal["lists", "docs", "metrics"], ...], NoDecode] = (
        "lists",
        "docs",
        "metrics",
    )
    """What may be read without a key, besides the probes."""
    cors_origins: Annotated[tuple[str, ...], NoDecode] = ()
    """Origins of pages that may use the service from a browser, separated by commas; `*`: all."""
    client_api_key: SecretStr = SecretStr("")
    """The key that `say` sends."""
    triton_address: str = "127.0.0.1:8001"
    """host:port of Triton's gRPC."""
    model_dir: Path | None = None
    """Checkpoint of Spark-TTS: `up` starts a Triton that speaks with it."""
    models: Annotated[tuple[str, ...], NoDecode] = Field(
        default_factory=lambda given: ("spark_tts" if given.get("model_dir") else "hibari",),
        min_length=1,
    )
    """Triton models that callers may name, separated by commas."""
    aliases_file: Path | None = None
    """TOML file of other names for models and voices; OpenAI's are built in."""
    voices_file: Path | None = None
    """TOML file of voices that models are given: recordings to clone, labels to make one from."""
    tokenizer_model: str = Field(default="audio_tokenizer", min_length=1)
    """Triton model that turns recordings into tokens."""
    cache_dir: Path | None = Field(default_factory=_user_cache)
    """Directory of voices that are tokenised or made; empty: memory alone."""
    default_sample_rate_hz: int = Field(default=16_000, ge=8_000, le=192_000)
    """Sample rate of models that do not say it themselves (Spark-TTS's upstream: 16 000)."""
    keep_native_rate: bool = False
    """Answer wav and pcm at the model's own sample rate instead of OpenAI's 24 kHz."""
    max_input_characters: int = Field(default=4096, ge=1)
    """Longest text of a request; 4096 is OpenAI's limit."""
    text_sanitize: bool = True
    """Take markup, emoji and what cannot be spoken out of a text."""
    text_urls: Urls = "domain"
    """What sanitising leaves of a web address: its domain, all of it, or nothing."""
    text_normalize: bool = True
    """Write numbers, dates, units and the like as words (English and Chinese)."""
    text_split: bool = True
    """Speak a text sentence by sentence, the first ones in small pieces."""
    first_segment_characters: int = Field(default=80, ge=20)
    """Longest first segment of a text that is split: a short one is heard early."""
    segment_characters: int = Field(default=300, ge=20)
    """Longest segment that a model gets; a model may declare a smaller maximum itself."""
    segment_pause_seconds: float = Field(default=0.15, ge=0, le=5)
    """Silence between two segments."""
    max_body_bytes: int = Field(default=1_048_576, ge=1024)
    """Largest request body that is read."""
    max_concurrent_requests: int = Field(default=16, ge=1)
    """Requests that may be at Triton at once."""
    admission_wait_seconds: float = Field(default=0.5, ge=0)
    """How long a request waits for a permit before it gets 429."""
    max_waiting_requests: int = Field(default=64, ge=0)
    """Requests that may wait for a permit at once; one more gets 429 without waiting."""
    key_max_concurrent_requests: int | None = Field(default=None, ge=1)
    """Requests that each key may have running and waiting at once; callers without one share it."""
    key_requests_per_minute: int | None = Field(default=None, ge=1)
    """Requests that each key may make within any 60 seconds; callers without one share it."""
    request_timeout_seconds: float = Field(default=600.0, gt=0)
    """Deadline of a whole request; a slow listener counts too (600 is the SDK's own)."""
    connect_timeout_seconds: float = Field(default=5.0, ge=0.1)
    """How long an attempt to connect to Triton may take (0.1 is the least that gRPC keeps)."""
    first_audio_timeout_seconds: float = Field(default=30.0, gt=0)
    """How long Triton may take to the first audio of each segment."""
    gap_timeout_seconds: float = Field(default=10.0, gt=0)
    """How long Triton may be silent between two chunks: a killed model says nothing at all."""
    shutdown_grace_seconds: float = Field(default=10.0, ge=0)
    """How long running streams may go on after the service is told to stop."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """How much is logged."""

    @field_validator("triton_address")
    @classmethod
    def _has_port(cls, value: str) -> str:
        host, _, port = value.rpartition(":")
        is_port = port.isascii() and port.isdecimal() and 0 < int(port) < 2**16
        if not host or "/" in value or not is_port:
            raise ValueError("must be host:port, with a port from 1 to 65535 and no scheme")
        return value

    @field_validator("aliases_file", "voices_file", "cache_dir", "model_dir", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return value or None

    @field_validator("cache_dir")
    @classmethod
    def _expand(cls, value: Path | None) -> Path | None:
        try:
            return value and value.expanduser()
        except RuntimeError as error:
            raise ValueError(f"{error}; give the whole path") from error

    @property
    def known_keys(self) -> tuple[ApiKey, ...]:
        """All keys that open the service; without any it is open to everyone."""
        return (*self.api_keys, *(self.api_keys_file.keys if self.api_keys_file else ()))

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

    @field_validator("models", "open_without_key", "cors_origins", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(filter(None, (name.strip() for name in value.split(","))))
        return value

    @field_validator("models")
    @classmethod
    def _speak_with_the_checkpoint(
        cls, value: tuple[str, ...], others: ValidationInfo
    ) -> tuple[str, ...]:
        if others.data.get("model_dir") and "spark_tts" not in value:
            raise ValueError("must hold spark_tts where SPEECH_MODEL_DIR is set")
        return value

    @field_validator("key_max_concurrent_requests", "key_requests_per_minute", mode="before")
    @classmethod
    def _nothing_is_none(cls, value: object) -> object:
        return None if value == "" else value


def unknown_settings() -> list[str]:
    """Return a warning for each SPEECH_ variable that no setting reads, with the nearest name.

    Raises SettingsError where the `.env` file cannot be read.
    """
    known = [f"{PREFIX}{name}".upper() for name in Settings.model_fields]
    names = {name.upper() for name in (*os.environ, *_names_in_file())}
    warnings = []
    for name in sorted(n for n in names if n.startswith(PREFIX) and n not in known):
        near = get_close_matches(name, known, n=1, cutoff=0.75)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
        warnings.append(f"{name} is no setting; {hint}")
    return warnings


def _names_in_file() -> list[str]:
    try:
        return list(dotenv_values(ENV_FILE))
    except UnicodeDecodeError as error:
        raise SettingsError(f"{ENV_FILE} is not UTF-8: {error}") from error


def load_settings(**overrides: object) -> Settings:
    """Read the settings; raises SettingsError naming each variable that is wrong."""
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        problems = [
            f"{PREFIX}{'.'.join(map(str, e['loc'])).upper()} = {_shown(e)}: {e['msg']}"
            for e in error.errors()
        ]
        raise SettingsError("; ".join(problems)) from error


def _shown(problem: Any) -> str:
    return "(not shown)" if problem["loc"][0] in SECRETS else repr(problem["input"])
