"""What the model of chaos says to a text, so that whoever hears something else knows it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt

from engine.render import render_model
from gateway.audio.joins import silence_between
from speech_wire import CANCEL_PARAMETER, INPUTS, OUTPUTS, ModelSpec

MODEL = "noise"
VOICES = ("anna", "bob", "carl", "dora")
RATE_HZ = 24_000
CHUNKS = 5
CHUNK_SAMPLES = 3_600
PAUSE_SECONDS = 0.05
SENTENCE_CHARACTERS = 60
"""Longer than one sentence of `Said`, shorter than two."""
TOLERANCE = 1
"""Of 32 767: the silence at a join is made in float32."""

Samples = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Said:
    """A request: its number, its voice, and of how many sentences it is."""

    number: int
    voice: str
    sentences: int

    @property
    def segments(self) -> list[str]:
        """The text as the model gets it: a call for each sentence."""
        parts = range(1, self.sentences + 1)
        return [f"This is sentence {part} of the request {self.number:06d}." for part in parts]

    def body(self) -> dict[str, object]:
        """Return the JSON that asks for it."""
        return {
            "model": MODEL,
            "voice": self.voice,
            "input": " ".join(self.segments),
            "response_format": "pcm",
            "text_options": {"normalize": False, "pause_seconds": PAUSE_SECONDS},
        }

    def samples(self) -> Samples:
        """Return what is to be heard, to the last sample."""
        heard = self._noise(self.segments[0])
        for text in self.segments[1:]:
            following = self._noise(text)
            ends = (heard[-1] / 32_767, following[0] / 32_767)
            pause = np.rint(silence_between(*ends, PAUSE_SECONDS, RATE_HZ) * 32_767)
            heard = np.concatenate([heard, pause.astype(np.int16), following])
        return heard

    def _noise(self, text: str) -> Samples:
        numbers = np.random.default_rng(crc32(f"{self.voice}: {text}".encode()))
        pieces = [numbers.integers(-30_000, 30_000, CHUNK_SAMPLES) for _ in range(CHUNKS)]
        return np.concatenate(pieces).astype(np.int16)

    def fault_of(self, pcm: bytes, *, is_whole: bool) -> str | None:
        """Return what is wrong with the audio, None if nothing is.

        Where the connection was cut, it may end early, but what was heard must be right.
        """
        expected = self.samples()
        heard = np.frombuffer(pcm[: len(pcm) // 2 * 2], "<i2")
        if len(heard) > len(expected):
            return f"{len(heard)} samples instead of {len(expected)}"
        differ = np.abs(heard.astype(int) - expected[: len(heard)]) > TOLERANCE
        if differ.any():
            return f"another's sample at {int(differ.argmax())} of {len(expected)}"
        if is_whole and len(pcm) != 2 * len(expected):
            return f"ended as if whole after {len(heard)} of {len(expected)} samples"
        return None


def write_repository(folder: Path, model: str = MODEL) -> Path:
    """Write a model repository with the noise in it, under this name, and return it."""
    inputs = {"target_text", "voice", "seed"}
    spec = ModelSpec(
        name=model,
        inputs=tuple(spec for spec in INPUTS if spec.name in inputs),
        outputs=tuple(spec for spec in OUTPUTS if spec.name != "global_tokens"),
        parameters={
            "voices": json.dumps([{"id": voice, "language": "en"} for voice in VOICES]),
            "sample_rate_hz": str(RATE_HZ),
            "chunks": str(CHUNKS),
            "chunk_samples": str(CHUNK_SAMPLES),
            CANCEL_PARAMETER: "true",
        },
    )
    folder.mkdir(exist_ok=True)
    render_model(spec, Path(__file__).parent / "model" / "model.py", folder)
    return folder
