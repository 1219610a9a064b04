"""POST /v1/audio/speech when all goes well: what the body, the headers and the model get."""

from __future__ import annotations

import json
import socket
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fakes.service import SAID, RunningService
from fakes.triton import NO_SAMPLES, FakeTriton, Gate, Script, tone, tones

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

TONE = tone(7200)
UNKNOWN_SIZE = 0xFFFFFFFF
ROUNDING = 1 / 32767


def decoded(pcm: bytes) -> npt.NDArray[np.float64]:
    """Return the samples of 16-bit little-endian PCM."""
    return np.frombuffer(pcm, "<i2") / 32767


def correlation(left: Sequence[float], right: Sequence[float]) -> float:
    """Return 1.0 where both have the same shape."""
    return float(np.corrcoef(left, right)[0, 1])


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/audio/speech"])
def test_pcm_is_the_samples_of_the_model_to_rounding(service: RunningService, path: str) -> None:
    response = service.client.post(path, json=SAID)

    assert response.status_code == 200
    assert response.headers["content-type"] == "audio/pcm"
    assert response.headers["x-sample-rate"] == "24000"
    np.testing.assert_allclose(decoded(response.content), TONE, atol=ROUNDING)


def test_wav_is_a_streaming_header_and_the_same_samples(service: RunningService) -> None:
    response = service.say(response_format="wav")

    riff, riff_size, wave = struct.unpack("<4sI4s", response.content[:12])
    fmt = struct.unpack("<4sIHHIIHH", response.content[12:36])
    data, data_size = struct.unpack("<4sI", response.content[36:44])
    assert response.headers["content-type"] == "audio/wav"
    assert (riff, riff_size, wave) == (b"RIFF", UNKNOWN_SIZE, b"WAVE")
    assert fmt == (b"fmt ", 16, 1, 1, 24_000, 48_000, 2, 16)
    assert (data, data_size) == (b"data", UNKNOWN_SIZE)
    assert response.content[44:] == service.say().content


def test_a_16_khz_model_is_heard_at_24_khz(triton: FakeTriton, service: RunningService) -> None:
    triton.script = Script(tones(4, 4000, 16_000), sample_rate_hz=16_000)
    service.learn()

    samples = decoded(service.say().content)

    assert len(samples) == 24_000
    assert correlation(samples[200:-200], tone(24_000)[200:-200]) > 0.9999


def test_keep_native_rate_leaves_16_khz_as_they_are(triton: FakeTriton) -> None:
    triton.script = Script(tones(4, 4000, 16_000), sample_rate_hz=16_000)

    with RunningService(triton, keep_native_rate=True) as service:
        response = service.say(response_format="wav")

    assert response.headers["x-sample-rate"] == "16000"
    assert struct.unpack("<I", response.content[24:28]) == (16_000,)
    np.testing.assert_allclose(decoded(response.content[44:]), tone(16_000, 16_000), atol=ROUNDING)


@pytest.mark.parametrize("audio_format", ["wav", "pcm"])
def test_the_first_audio_comes_while_the_model_still_works_on_the_second(
    triton: FakeTriton, service: RunningService, audio_format: str
) -> None:
    gate = Gate()
    triton.script = Script([tone(), gate, tone()])
    body = SAID | {"response_format": audio_format}

    with service.client.stream("POST", "/v1/audio/speech", json=body) as response:
        packets = response.iter_raw()
        first = next(packets)
        still_working = triton.seen.open_streams
        gate.open()
        rest = b"".join(packets)

    assert still_working == 1
    assert first.endswith(rest)
    assert len(rest) == 2 * len(tone())


@pytest.mark.parametrize("voice", ["fable", {"id": "fable"}], ids=["name", "object"])
def test_text_and_voice_reach_the_model(
    triton: FakeTriton, service: RunningService, voice: object
) -> None:
    text = "Grüß Gott, 你好"

    response = service.say(voice=voice, input=text)

    [request] = triton.seen.requests
    assert response.status_code == 200
    assert (request.target_text, request.voice, request.seed) == (text, "fable", None)


def test_the_seed_reaches_a_model_that_takes_one(
    triton: FakeTriton, service: RunningService
) -> None:
    response = service.say(seed=2**64 - 1)

    [request] = triton.seen.requests
    assert response.status_code == 200
    assert request.seed == 2**64 - 1


def test_a_seed_for_a_model_that_takes_none_is_refused(
    triton: FakeTriton, service: RunningService
) -> None:
    triton.script = Script(is_batched=True)
    service.learn()

    response = service.say(seed=7)

    assert response.status_code == 400
    assert response.json()["error"]["param"] == "seed"


def test_a_client_that_offers_http_2_is_heard(service: RunningService) -> None:
    """Java's client asks for an upgrade with every first request; the body must not be lost."""
    offer = {
        "connection": "Upgrade, HTTP2-Settings",
        "upgrade": "h2c",
        "http2-settings": "AAMAAABk",
    }

    response = service.client.post("/v1/audio/speech", json=SAID, headers=offer)

    assert response.status_code == 200


def test_an_http_1_0_client_gets_no_chunk_sizes(service: RunningService) -> None:
    body = json.dumps(SAID).encode()
    head = "POST /v1/audio/speech HTTP/1.0\r\ncontent-type: application/json\r\n"

    with socket.create_connection(("127.0.0.1", service.port)) as client:
        client.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        answer = b"".join(iter(lambda: client.recv(65536), b""))

    headers, _, audio = answer.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in headers.lower()
    assert len(audio) == 2 * 3 * 2400


@pytest.mark.parametrize("given", ["abc-123", "7f:0._x"])
def test_the_callers_request_id_comes_back_and_reaches_the_model(
    triton: FakeTriton, service: RunningService, given: str
) -> None:
    response = service.client.post("/v1/audio/speech", json=SAID, headers={"x-request-id": given})

    assert response.headers["x-request-id"] == given
    [at_triton] = triton.seen.request_ids
    assert at_triton.startswith(f"{given}.")


@pytest.mark.parametrize("given", ["", "two words", "a" * 129, 'q"uote'])
def test_an_unfit_request_id_is_replaced(
    triton: FakeTriton, service: RunningService, given: str
) -> None:
    response = service.client.post("/v1/audio/speech", json=SAID, headers={"x-request-id": given})

    made = response.headers["x-request-id"]
    assert made.startswith("req_")
    [at_triton] = triton.seen.request_ids
    assert at_triton.startswith(f"{made}.")


@pytest.mark.parametrize(
    ("fields", "ignored"),
    [
        pytest.param({"lang": "en", "volume": 2}, "lang, volume", id="unknown"),
        pytest.param({"instructions": "Whisper."}, "instructions", id="instructions"),
        pytest.param({"instructions": "None"}, None, id="the word None"),
        pytest.param({"instructions": None}, None, id="null"),
        pytest.param({"ü\r\nx": 1, "lang": "en"}, "%C3%BC%0D%0Ax, lang", id="no header injection"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_fields_that_do_nothing_are_named(
    service: RunningService, fields: dict[str, object], ignored: str | None
) -> None:
    response = service.say(**fields)

    assert response.status_code == 200
    assert response.headers.get("x-speech-ignored") == ignored


def test_an_upstream_model_with_batches_and_without_optional_outputs_works(
    triton: FakeTriton,
) -> None:
    triton.script = Script(tones(3, 1600, 16_000), is_batched=True)

    with RunningService(triton, keep_native_rate=True) as service:
        response = service.say(voice="whatever")

    [request] = triton.seen.requests
    assert (request.target_text, request.voice) == (SAID["input"], None)
    assert response.headers["x-sample-rate"] == "16000"
    np.testing.assert_allclose(decoded(response.content), tone(4800, 16_000), atol=ROUNDING)


@pytest.mark.parametrize("rate_hz", [24_000, 16_000])
def test_samples_that_are_no_numbers_are_silence(
    triton: FakeTriton, service: RunningService, rate_hz: int
) -> None:
    broken = np.array([np.nan, np.inf, -np.inf] * 800, np.float32)
    triton.script = Script([broken, tone(2400, rate_hz)], sample_rate_hz=rate_hz)
    service.learn()

    samples = decoded(service.say().content)

    silence, sound = 2400 * 24_000 // rate_hz - 100, 2400 * 24_000 // rate_hz + 100
    assert np.abs(samples[:silence]).max() < 0.01
    assert np.abs(samples[sound:]).max() > 0.4


def test_samples_beyond_one_are_clipped(triton: FakeTriton, service: RunningService) -> None:
    triton.script = Script([np.array([2.0, -2.0, 1.0, -1.0], np.float32)])

    samples = np.frombuffer(service.say().content, "<i2")

    assert samples.tolist() == [32767, -32767, 32767, -32767]


@pytest.mark.parametrize("audio_format", ["wav", "pcm"])
def test_empty_chunks_are_no_audio(
    triton: FakeTriton, service: RunningService, audio_format: str
) -> None:
    expected = service.say(response_format=audio_format).content
    triton.script = Script([NO_SAMPLES, tone(), NO_SAMPLES, tone(4800, start=2400), NO_SAMPLES])

    response = service.say(response_format=audio_format)

    assert response.content == expected


def test_a_chunk_over_grpcs_own_limit_of_4_mib_passes(
    triton: FakeTriton, service: RunningService
) -> None:
    triton.script = Script([tone(1_200_000)])

    response = service.say()

    assert len(response.content) == 2_400_000


def test_audio_is_never_compressed_on_the_way(service: RunningService) -> None:
    response = service.client.post(
        "/v1/audio/speech", json=SAID, headers={"accept-encoding": "gzip, deflate, br"}
    )

    assert "content-encoding" not in response.headers
    assert response.headers["x-accel-buffering"] == "no"
