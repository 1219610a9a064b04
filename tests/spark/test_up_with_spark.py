"""`speech-gateway up --model-dir`: Spark-TTS from HTTP to waveform, in the voices of a file."""

from __future__ import annotations

import io
import os
import signal
import sys
import wave
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
import soundfile

from tritonserver.processes import Ports, Process, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

pytestmark = [pytest.mark.spark, pytest.mark.triton]

VOICES = """
[spark_tts.anna]
reference = "anna.wav"
transcript = "What anna says."

[spark_tts.carl]
reference = "anna.wav"

[spark_tts.bob]
gender = "male"
"""
MIXED = "Hello, 你好。 This costs $5.99, 对吗? " * 30


@dataclass
class Served:
    process: Process
    ports: Ports
    cache: Path

    def say(self, **fields: Any) -> httpx.Response:
        body = {"model": "spark_tts", "voice": "anna", "input": "Hello there.", "seed": 1}
        body |= {"response_format": "wav", "stream": False}
        return httpx.post(f"{self.ports.url}/v1/audio/speech", json=body | fields, timeout=120)


@pytest.fixture(scope="module")
def served(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("voices")
    (folder / "voices.toml").write_text(VOICES, encoding="utf-8")
    recording = np.random.default_rng(1).uniform(-0.3, 0.3, 48_000)
    soundfile.write(folder / "anna.wav", recording, 24_000)
    ports = free_ports()
    where = ("--port", str(ports.http), "--triton", ports.triton)
    command = (sys.executable, "-I", "-m", "gateway", "up", *where)
    env = os.environ | {
        "SPEECH_VOICES_FILE": str(folder / "voices.toml"),
        "SPEECH_CACHE_DIR": str(folder / "cache"),
    }
    process = Process(*command, "--model-dir", str(checkpoint), env=env)
    process.wait_for("ready: ", 120)
    yield Served(process, ports, folder / "cache")
    assert process.stop(signal.SIGTERM) == 0


def seconds(answer: httpx.Response) -> float:
    """Return how long the WAV of an answer is."""
    assert answer.status_code == 200, answer.text
    with wave.open(io.BytesIO(answer.content)) as file:
        return file.getnframes() / file.getframerate()


def samples(answer: httpx.Response) -> npt.NDArray[np.int16]:
    """Return what the WAV of an answer holds."""
    assert answer.status_code == 200, answer.text
    with wave.open(io.BytesIO(answer.content)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def test_it_is_ready_and_lists_its_voices(served: Served) -> None:
    models = httpx.get(f"{served.ports.url}/v1/models").json()["data"]
    voices = httpx.get(f"{served.ports.url}/v1/audio/voices?legacy=true").json()["voices"]

    assert [model["id"] for model in models] == ["spark_tts"]
    assert voices == ["anna", "carl", "bob"]
    assert httpx.get(f"{served.ports.url}/readyz").status_code == 200


@pytest.mark.parametrize("voice", ["anna", "carl", "bob"])
def test_every_kind_of_voice_speaks_and_the_same_seed_says_the_same(
    served: Served, voice: str
) -> None:
    made = served.say(voice=voice)  # A made voice is made by the first request, and kept.
    first, second = served.say(voice=voice), served.say(voice=voice)

    assert seconds(made) > 0.2
    # Where the cuts are depends on the time that it takes, and sums round differently beside them.
    assert np.abs(samples(first).astype(int) - samples(second)).max() <= 1
    assert seconds(first) > 0.2


def test_a_long_text_in_two_languages_is_one_answer(served: Served) -> None:
    segments = httpx.post(
        f"{served.ports.url}/v1/audio/speech/preview",
        json={"model": "spark_tts", "voice": "anna", "input": MIXED},
    ).json()["segments"]

    answer = served.say(input=MIXED)

    assert max(segment["characters"] for segment in segments) <= 240
    assert seconds(answer) > 0.2 * len(segments)


def test_what_is_streamed_is_what_is_sent_whole(served: Served) -> None:
    streamed = served.say(response_format="pcm", stream=True)
    whole = served.say(response_format="pcm")

    assert streamed.content == whole.content


def test_voices_are_kept_as_tokens(served: Served) -> None:
    for voice in ("anna", "carl", "bob"):
        assert served.say(voice=voice).status_code == 200

    # The two recordings are one and the same.
    assert len(list(served.cache.iterdir())) == 2
