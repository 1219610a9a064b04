"""From what a caller sent to the segments that a model speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.text.normalize import normalize
from gateway.text.sanitize import sanitize
from gateway.text.split import pack, sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gateway.text.policy import TextPolicy


def segments(text: str, policy: TextPolicy) -> Iterator[str]:
    """Yield the segments of a text, each when it is asked for.

    Only sanitising and splitting see the whole text; a sentence is normalised when its segment
    is due. A text with nothing to speak gives what is left of it, perhaps nothing.
    """
    text = sanitize(text, policy.urls) if policy.sanitize else text
    most = policy.segment_characters
    first = policy.first_segment_characters if policy.split else most
    parts: Iterable[str] = sentences(text) if policy.split else [text]
    if policy.normalize:
        parts = (normalize(part, policy.language) for part in parts)
    return pack(parts, first, most)
