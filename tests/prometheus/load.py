"""Callers of every kind, who count what they got."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx

BYTES_PER_SECOND = 48_000
LONG = "There is nobody left who would hear the end of this long, long story about the sea. " * 12


@dataclass
class Load:
    """Requests to a service, and how each ended, under the service's own words for it."""

    url: str
    outcomes: Counter[str] = field(default_factory=Counter)
    audio_seconds: float = 0.0

    def speak(self, text: str) -> bool:
        """Listen to the end; True if there was one."""
        answer = httpx.post(self.url, json=body(text), timeout=60)
        if answer.is_success:
            self.outcomes["finished"] += 1
            self.audio_seconds += len(answer.content) / BYTES_PER_SECOND
        else:
            assert answer.is_server_error, answer.text
            self.outcomes["failed"] += 1
        return answer.is_success

    def speak_together(self, *texts: str) -> None:
        """Several at once; all must get to their ends."""
        with ThreadPoolExecutor(len(texts)) as pool:
            assert all(pool.map(self.speak, texts))

    def ask_for_nothing(self) -> None:
        """Send a text in which nothing can be spoken."""
        answer = httpx.post(self.url, json=body("😀😀"))
        assert answer.status_code == 400, answer.text
        self.outcomes["rejected"] += 1

    def hang_up(self) -> None:
        """Leave after the first sound."""
        with httpx.stream("POST", self.url, json=body(LONG), timeout=60) as answer:
            next(answer.iter_raw())
        self.outcomes["cancelled"] += 1


def body(text: str) -> dict[str, Any]:
    return {"model": "hibari", "voice": "heart", "response_format": "pcm", "input": text}
