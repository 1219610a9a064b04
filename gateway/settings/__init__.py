"""All settings of the gateway; the only reader of the environment."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from typing import Any

from dotenv import dotenv_values
from pydantic import ValidationError
from pydantic_settings import SettingsConfigDict

from gateway.settings.http import HttpSettings
from gateway.settings.speech import SpeechSettings
from gateway.settings.telemetry import TelemetrySettings
from gateway.settings.triton import TritonSettings

PREFIX = "SPEECH_"
ENV_FILE = ".env"
PEMS = ("triton_ca", "triton_client_cert", "triton_client_key")
SECRETS = ("api_keys", "client_api_key", *PEMS, "triton_metadata")
PATH = re.compile(r"(?!.*-----BEGIN)(?![\w+/=\\]{40,}$)[^\n]{1,200}")
"""What is meant as the path of a file of PEM: one short line, neither PEM nor what is within."""


class SettingsError(Exception):
    """A setting is wrong; the message names it and what fits."""


class Settings(TelemetrySettings, SpeechSettings, TritonSettings, HttpSettings):
    """The effective settings: flags override the environment, which overrides `.env`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=ENV_FILE,
        extra="ignore",
        frozen=True,
        allow_inf_nan=False,  # "Never" has a value of its own, where it is possible.
        hide_input_in_errors=True,  # It may be a key.
    )


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
            f"{PREFIX}{e['loc'][0]}".upper() + f" = {_shown(e)}: {_words(e)}"
            for e in error.errors()
            # That one depends on another that is wrong, and nobody gave it.
            if e["type"] != "default_factory_not_called"
        ]
        raise SettingsError("; ".join(problems)) from error


def _shown(problem: Any) -> str:
    name, given = problem["loc"][0], problem["input"]
    is_path = name in PEMS and isinstance(given, str) and PATH.fullmatch(given)
    return repr(given) if is_path or name not in SECRETS else "(not shown)"


def _words(problem: Any) -> str:
    return str(problem["msg"]).removeprefix("Value error, ")
