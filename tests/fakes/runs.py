"""Runs of `speech-gateway bench` that nobody made."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gateway.bench.machine import describe
from gateway.bench.measure import Measured
from gateway.bench.results import RequestFiles, write_summary
from gateway.bench.summary import summarise

if TYPE_CHECKING:
    from pathlib import Path

ABOUT = {
    "started": "2026-01-01",
    "command": "speech-gateway bench",
    "target": "http://host",
    "model": "hibari",
    "voice": None,
    "format": "pcm",
    "texts": "5 texts",
    "buffer_seconds": 0.2,
    "audible_dbfs": -50.0,
    "interrupted": False,
    **describe(),
}


def one(number: int = 0, seconds: float = 0.1, level: str = "c1", **changes: Any) -> Measured:
    """Return a request that was heard after so many seconds; one begins each second."""
    measured = Measured(
        *(level, number, "a", 4, "listens", "ok", "", float(number), 0.0),
        first_byte_seconds=seconds,
        first_audible_seconds=seconds,
        first_heard_seconds=seconds,
        total_seconds=seconds + 0.5,
        audio_seconds=2.0,
        rtf=0.25,
        max_gap_seconds=0.5,
        arrivals=((seconds, 1.0), (seconds + 0.5, 2.0)),
    )
    return replace(measured, **changes)


def failed(number: int, outcome: str = "HTTP 500", detail: str = "why") -> Measured:
    return Measured("c1", number, "a", 4, "listens", outcome, detail, float(number), 0.0)


def save(folder: Path, requests: list[Measured], **about: Any) -> None:
    files = RequestFiles(folder)
    for measured in requests:
        files.write(measured)
    files.close()
    levels = {measured.level: measured for measured in requests}
    write_summary(
        folder,
        ABOUT | about,
        [summarise(name, [m for m in requests if m.level == name]) for name in levels],
    )
