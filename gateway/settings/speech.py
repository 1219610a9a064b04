"""The settings of a request: names, text, limits."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from gateway.settings.values import Maybe
from gateway.text.policy import Urls


def _user_cache() -> Path | None:
    """Return the directory of the XDG specification, None for a user without a home."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        # The specification says to ignore a relative path.
        return (base if base.is_absolute() else Path.home() / ".cache") / "speech-gateway"
    except RuntimeError:
        return None


class SpeechSettings(BaseSettings):
    """The settings of a request: names, text, limits."""

    aliases_file: Maybe[Path] = None
    """TOML file of other names for models and voices; OpenAI's are built in."""
    voices_file: Maybe[Path] = None
    """TOML file of voices that models are given: recordings to clone, labels to make one from."""
    cache_dir: Maybe[Path] = Field(default_factory=_user_cache)
    """Directory of voices that are tokenised or made; empty: memory alone."""
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
    max_concurrent_requests: int = Field(default=16, ge=1)
    """Requests that may be at Triton at once."""
    admission_wait_seconds: float = Field(default=0.5, ge=0)
    """How long a request waits for a permit before it gets 429."""
    max_waiting_requests: int = Field(default=64, ge=0)
    """Requests that may wait for a permit at once; one more gets 429 without waiting."""
    key_max_concurrent_requests: Maybe[int] = Field(default=None, ge=1)
    """Requests that each key may have running and waiting at once; callers without one share it."""
    key_requests_per_minute: Maybe[int] = Field(default=None, ge=1)
    """Requests that each key may make within any 60 seconds; callers without one share it."""
    request_timeout_seconds: float = Field(default=600.0, gt=0)
    """Deadline of a whole request; a slow listener counts too (600 is the SDK's own)."""

    @field_validator("cache_dir")
    @classmethod
    def _expand(cls, value: Path | None) -> Path | None:
        if value is None:
            return None
        try:
            folder = value.expanduser()
        except RuntimeError as error:
            raise ValueError(f"{error}; give the whole path") from error
        # One that cannot be written now is no error: memory remains, and a log line says so.
        for path in (folder, *folder.parents):
            if os.path.lexists(path) and not path.is_dir():
                raise ValueError(f"must be a folder, and {path} is none")
        return folder
