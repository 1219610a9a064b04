"""`speed`: by the model where it can, else by stretching; the pitch stays."""

from __future__ import annotations

import numpy as np
import pytest

from fakes.decoding import decode
from fakes.service import RunningService, assert_ended
from fakes.triton import FakeTriton, Script, tones

SECONDS = 4


@pytest.fixture
def script() -> Script:
    return Script(tones(SECONDS * 5, 4800))


@pytest.mark.parametrize("name", ["pcm", "mp3", "opus"])
@pytest.mark.parametrize("speed", [0.25, 0.5, 1.5, 2, 4.0])
def test_the_speech_is_as_much_shorter_and_keeps_its_pitch(
    triton: FakeTriton, service: RunningService, script: Script, name: str, speed: float
) -> None:
    triton.script = script

    body = service.say(speed=speed, response_format=name).content

    heard = np.frombuffer(body, "<i2") if name == "pcm" else decode(body)
    assert len(heard) / 24_000 * speed == pytest.approx(SECONDS, rel=0.05, abs=0.1 * speed)
    middle = heard[len(heard) // 4 : len(heard) * 3 // 4]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert np.argmax(spectrum) * 24_000 / len(middle) == pytest.approx(440, abs=4)


def test_what_is_counted_is_what_is_heard(
    triton: FakeTriton, service: RunningService, script: Script
) -> None:
    triton.script = script

    service.say(speed=2.0)

    assert_ended(service, triton, finished=1)
    figure = f'speech_audio_seconds_total{{model="hibari"}} {SECONDS / 2}'
    assert figure in service.client.get("/metrics").text


def test_a_model_that_can_speak_faster_does_it_itself(
    triton: FakeTriton, service: RunningService
) -> None:
    triton.script = Script(takes_speed=True)
    service.learn()

    response = service.say(speed=1.5)

    [request] = triton.seen.requests
    assert request.speed == 1.5
    assert len(response.content) == 2 * 3 * 2400


def test_a_model_that_cannot_is_not_asked(triton: FakeTriton, service: RunningService) -> None:
    service.say(speed=1.5)

    [request] = triton.seen.requests
    assert request.speed is None
