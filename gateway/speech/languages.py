"""Codes of languages, as callers write them."""

from __future__ import annotations

KOKORO_CODES = {
    "a": "en-US",
    "b": "en-GB",
    "e": "es",
    "f": "fr",
    "h": "hi",
    "i": "it",
    "j": "ja",
    "p": "pt-BR",
    "z": "zh",
}
"""The letters that clients of Kokoro-FastAPI send as `lang_code`."""


def language_of(given: str | None) -> str | None:
    """Return the BCP 47 code that is meant, None where the text shall decide."""
    if given is None or given.lower() == "auto":
        return None
    return KOKORO_CODES.get(given, given)


def is_same_language(one: str, other: str) -> bool:
    """Whether both are the same language, whatever the country."""
    return _primary(one) == _primary(other)


def _primary(code: str) -> str:
    # Some models write en_US.
    return code.lower().replace("_", "-").split("-")[0]
