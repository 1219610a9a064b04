"""What is done to a text before it is spoken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Urls: TypeAlias = Literal["domain", "keep", "drop"]
"""What is spoken of an address: its domain alone, all of it, or nothing."""


@dataclass(frozen=True, slots=True)
class TextPolicy:
    """What is done to a text before it is spoken."""

    sanitize: bool = True
    """Take out markup, emoji and characters that cannot be spoken."""
    urls: Urls = "domain"
    """What `sanitize` leaves of an address."""
    normalize: bool = True
    """Write numbers, units, dates and the like as words (English and Chinese)."""
    language: str | None = None
    """Language of the caller or the voice ("en", "en-US", "zh"); None: by script."""
    split: bool = True
    """Speak sentence by sentence; else only the model's maximum cuts the text."""
    first_segment_characters: int = 80
    """Longest first segment: a short one is heard early."""
    segment_characters: int = 300
    """Longest segment that the model speaks well; never exceeded."""
