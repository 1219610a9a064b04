"""A Spark-TTS that has no voices but those of a file; two Tritons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fakes.recordings import record
from fakes.service import RunningService
from fakes.tokenizer import FakeTokenizer
from fakes.triton import FakeTriton, Script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

VOICES = """
[spark_tts.anna]
reference = "anna.wav"
transcript = "What anna says."
language = "en"
[spark_tts.carl]
reference = "carl.flac"
[spark_tts.bob]
gender = "male"
pitch = "low"
"""


@pytest.fixture
def spark() -> Iterator[FakeTriton]:
    """Give a Triton with a Spark-TTS, which gives each voice that it makes other tokens."""
    with FakeTriton(Script(voices=(), is_spark=True), models=("spark_tts",)) as fake:
        fake.tokenizer = FakeTokenizer()
        yield fake


@pytest.fixture
def voices_file(tmp_path: Path) -> Path:
    """Give a file with anna and carl, who are recorded, and bob, who is made."""
    record(tmp_path / "anna.wav", 2.0)
    record(tmp_path / "carl.flac", 3.0, 24_000)
    path = tmp_path / "voices.toml"
    path.write_text(VOICES, "utf-8")
    return path


@pytest.fixture
def serve(spark: FakeTriton, voices_file: Path, tmp_path: Path) -> Callable[..., RunningService]:
    """Give what makes a service with the file, and one cache for all of them."""

    def make(**settings: Any) -> RunningService:
        usual = {"models": "spark_tts", "voices_file": voices_file, "cache_dir": tmp_path / "cache"}
        return RunningService(spark, **(usual | settings))

    return make


@pytest.fixture
def pair() -> Iterator[tuple[FakeTriton, FakeTriton]]:
    """Give two Tritons that are alike."""
    with FakeTriton() as one, FakeTriton() as other:
        yield one, other
