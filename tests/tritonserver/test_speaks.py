"""The main job on the real thing: text in, a voice out, streamed."""

from __future__ import annotations

import io
import shutil
import subprocess
import wave
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest
import soundfile
import soxr
from pocketsphinx import Decoder

from fakes.decoding import decode

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

SENTENCES = (
    "The weather was warm and the children played in the garden. "
    "My brother bought a new car for his family. "
    "She read the letter twice before she gave an answer. "
    "We will meet at the station in the morning."
)
LONG_TEXT = " ".join(f"This is sentence {n} of a long story about the sea." for n in range(75))


@pytest.fixture
def client(stack: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{stack.ports.url}/v1", api_key="none", max_retries=0)


def speak(client: openai.OpenAI, text: str, path: Path) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="hibari", voice="heart", input=text, response_format="wav"
    ) as response:
        response.stream_to_file(path)


def test_a_recogniser_understands_most_words(client: openai.OpenAI, tmp_path: Path) -> None:
    """What the OpenAI package streams to a file is speech: most words are recognised."""
    path = tmp_path / "speech.wav"

    speak(client, SENTENCES, path)

    samples, rate = soundfile.read(path, dtype="float32")
    heard = recognise(soxr.resample(samples, rate, 16_000))
    spoken = SENTENCES.lower().replace(".", "").split()
    found = [word for word in spoken if word in heard]
    assert len(found) >= 0.75 * len(spoken), f"heard: {heard}"


def recognise(samples: np.ndarray) -> list[str]:
    decoder = Decoder(samprate=16_000, loglevel="FATAL")
    decoder.start_utt()
    decoder.process_raw((samples * 32767).astype("<i2").tobytes(), full_utt=True)
    decoder.end_utt()
    return decoder.hyp().hypstr.split()


@pytest.mark.skipif(shutil.which("ffprobe") is None, reason="ffprobe is not installed (ffmpeg)")
def test_ffprobe_decodes_the_wav(client: openai.OpenAI, tmp_path: Path) -> None:
    path = tmp_path / "speech.wav"

    speak(client, SENTENCES, path)

    command = ["ffprobe", "-v", "error", "-count_frames", "-show_entries"]
    entries = "stream=codec_name,sample_rate,channels"
    found = subprocess.run(
        [*command, entries, "-of", "csv=p=0", path], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "pcm_s16le,24000,1"
    assert found.stderr == ""


def test_first_bytes_come_before_the_last_sentence_is_made(stack: Any) -> None:
    """When the first audio arrives, the model is still working on the text."""

    def segments_made() -> float:
        return stack.metric("speech_model_requests_total", of_triton=True, outcome="finished")

    with httpx.stream("POST", f"{stack.ports.url}/v1/audio/speech", json=request(LONG_TEXT)) as r:
        pieces = r.iter_bytes()
        first = next(pieces)
        at_first = segments_made()
        rest = sum(len(piece) for piece in pieces)

    assert segments_made() - at_first > 2
    assert 0 < len(first) < rest / 10


def test_same_text_gives_the_same_bytes(stack: Any) -> None:
    assert stack.ask("Once again.").content == stack.ask("Once again.").content


def test_wav_and_pcm_hold_the_same_samples(stack: Any) -> None:
    pcm = stack.ask("The same in two formats.").content
    wav = stack.ask("The same in two formats.", response_format="wav").content

    assert wav[44:] == pcm
    with wave.open(io.BytesIO(wav)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)


@pytest.mark.parametrize("text", ["Yes.", SENTENCES, LONG_TEXT], ids=["word", "four", "long"])
def test_every_format_is_as_long_as_the_wav(stack: Any, text: str) -> None:
    """mp3 and aac add their delay and padding, the others nothing."""
    samples = len(stack.ask(text).content) // 2

    for name, delay in (("mp3", 2257), ("opus", 0), ("aac", 2048), ("flac", 0), ("wav", 0)):
        decoded = decode(stack.ask(text, response_format=name).content)
        assert 0 <= len(decoded) - samples <= delay, name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Привет, мир", "CYRILLIC"),
        ("He said 你好 to me", "CJK"),
        ("😀😀", "nothing to speak"),
        ("...!", "nothing to speak"),
    ],
    ids=["russian", "chinese-in-english", "emoji", "punctuation"],
)
def test_text_that_the_voice_cannot_speak_is_refused(stack: Any, text: str, words: str) -> None:
    """What would be silence or noise is a 400, in the model's words where it has seen the text."""
    answer = stack.ask(text)

    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert answer.json()["error"]["param"] == "input"


def test_many_at_once_each_get_their_own(stack: Any) -> None:
    """Eight different requests at once give what each gives alone."""
    texts = [f"Number {n} is mine, and only mine." for n in range(8)]
    alone = [stack.ask(text).content for text in texts]

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda text: stack.ask(text).content, texts))

    assert together == alone


def request(text: str) -> dict[str, str]:
    return {"model": "hibari", "voice": "heart", "response_format": "pcm", "input": text}
