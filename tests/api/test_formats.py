"""Every format at the front door: type, magic, length, streaming, endings."""

from __future__ import annotations

import grpc
import httpx
import numpy as np
import pytest

from fakes.decoding import decode
from fakes.service import SAID, RunningService, assert_ended
from fakes.triton import (
    Abort,
    Fail,
    FakeTriton,
    Garbage,
    Gate,
    Hang,
    Misplaced,
    Script,
    tone,
    tones,
)

TYPES = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}
BROKEN = {
    "fails": Script([tone(12_000), Fail("boom")]),
    "hangs": Script([tone(12_000), Hang()]),
    "sends garbage": Script([tone(12_000), Garbage()]),
    "leaves a gap": Script([tone(12_000), Misplaced(tone())]),
    "goes away": Script([tone(12_000), Abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")]),
    "ends without FINAL": Script([tone(12_000)], sends_final=False),
}
UNCOMPRESSED = ("wav", "pcm")
EVERY = pytest.mark.parametrize("name", list(TYPES))
SPEECH = "/v1/audio/speech"


@EVERY
def test_each_format_is_what_its_type_says_and_as_long_as_the_speech(
    triton: FakeTriton, service: RunningService, name: str
) -> None:
    triton.script = Script(tones(10))

    response = service.say(response_format=name)

    assert response.headers["content-type"] == TYPES[name]
    assert 0 <= len(decode(response.content, name)) - 24_000 <= 2048
    assert_ended(service, triton, finished=1)


def test_mp3_is_what_comes_when_no_format_is_named(service: RunningService) -> None:
    body = {key: value for key, value in SAID.items() if key != "response_format"}

    response = service.client.post(SPEECH, json=body)

    assert response.headers["content-type"] == "audio/mpeg"
    assert response.content.startswith(b"\xff\xf3")


@EVERY
def test_the_first_sound_comes_while_the_model_still_speaks(
    triton: FakeTriton, service: RunningService, name: str
) -> None:
    gate = Gate()
    triton.script = Script([tone(3600), gate, tone(3600, start=3600)])

    with service.client.stream("POST", SPEECH, json=SAID | {"response_format": name}) as response:
        pieces = response.iter_bytes()
        first = next(pieces)
        gate.open()
        rest = b"".join(pieces)

    assert len(decode(first, name)) > 0
    assert len(decode(first + rest, name)) >= 7200


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
@EVERY
def test_a_model_that_breaks_off_breaks_every_format(
    triton: FakeTriton, name: str, broken: Script
) -> None:
    triton.script = broken
    body = SAID | {"response_format": name}

    with RunningService(triton, gap_timeout_seconds=1.0) as service:
        with (
            service.client.stream("POST", SPEECH, json=body) as response,
            pytest.raises(httpx.RemoteProtocolError),
        ):
            list(response.iter_bytes())

        assert response.status_code == 200
        outcome = "timed_out" if broken is BROKEN["hangs"] else "failed"
        assert_ended(service, triton, **{outcome: 1})


@EVERY
def test_samples_that_are_no_numbers_are_silence(
    triton: FakeTriton, service: RunningService, name: str
) -> None:
    wrong = np.full(12_000, np.nan, np.float32)
    wrong[::2] = np.inf
    triton.script = Script([tone(12_000), wrong, tone(12_000, start=24_000)])

    response = service.say(response_format=name)

    heard = decode(response.content, name)
    assert response.status_code == 200
    assert 36_000 <= len(heard) <= 38_048
    assert np.abs(heard[16_000:20_000]).max() < 330
    assert np.abs(heard[30_000:34_000]).max() > 13_000


@EVERY
def test_another_rate_than_24_khz_keeps_its_pitch(triton: FakeTriton, name: str) -> None:
    """A model at 22 050 Hz, a rate that Opus does not know, even where native rates are kept."""
    triton.script = Script(tones(10, 2205, 22_050), sample_rate_hz=22_050)

    with RunningService(triton, keep_native_rate=name not in UNCOMPRESSED) as service:
        heard = decode(service.say(response_format=name).content, name)

    spectrum = np.abs(np.fft.rfft(heard[2400:21_600]))
    assert np.argmax(spectrum) * 24_000 / 19_200 == pytest.approx(440, abs=3)
