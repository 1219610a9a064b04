"""Many at once: everyone hears what he asked for, and nothing of anybody else."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import numpy as np

from fakes.decoding import decode
from fakes.service import SAID, RunningService, assert_ended
from fakes.triton import FakeTriton, Script

if TYPE_CHECKING:
    from fakes.script import Step
    from speech_wire import SynthesisRequest

LISTENERS = 64
FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")
CHUNKS = 10
CHUNK_SAMPLES = 2400


def own_tone(request: SynthesisRequest) -> list[Step]:
    """Return a sine of the frequency that the text names."""
    match = re.search(r"\d+", request.target_text)
    assert match
    at_seconds = np.arange(CHUNKS * CHUNK_SAMPLES) / 24_000
    sine = 0.5 * np.sin(2 * np.pi * int(match[0]) * at_seconds)
    return list(sine.astype(np.float32).reshape(CHUNKS, -1))


def test_64_listeners_at_once_hear_each_his_own_tone(triton: FakeTriton) -> None:
    triton.script = Script(by_text=own_tone)
    frequencies = [200 + 50 * number for number in range(LISTENERS)]

    with RunningService(triton, max_concurrent_requests=LISTENERS) as service:

        def listen(number: int) -> float:
            name = FORMATS[number % len(FORMATS)]
            body = SAID | {
                "input": f"Tone {frequencies[number]}.",
                "text_options": {"normalize": False},
                "response_format": name,
            }
            answer = httpx.post(f"{service.base_url}/v1/audio/speech", json=body, timeout=60)
            assert answer.status_code == 200
            heard = decode(answer.content, name).astype(float)
            # 0.8 s from the middle: the strongest line, and how much of all power it is.
            spectrum = np.abs(np.fft.rfft(heard[2400:21_600] * np.hanning(19_200))) ** 2
            loudest = int(spectrum.argmax())
            own = spectrum[loudest - 3 : loudest + 4].sum()
            assert own / spectrum[10:].sum() > 0.99
            return loudest * 24_000 / 19_200

        with ThreadPoolExecutor(LISTENERS) as pool:
            heard = list(pool.map(listen, range(LISTENERS)))

        assert np.abs(np.array(heard) - frequencies).max() < 3
        assert_ended(service, triton, finished=LISTENERS)
