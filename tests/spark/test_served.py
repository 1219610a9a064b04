"""Spark-TTS on the real Triton, with a language model that writes what a test asks for."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import pytest
import torch

from spark.server import SparkServer, codes, render_scripted, served, spoken, until
from speech_backend.bicodec import BiCodecDecoder
from speech_wire import INVALID_INPUT, SynthesisRequest
from tritonserver.processes import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spark.server import Call

pytestmark = [pytest.mark.spark, pytest.mark.triton]

NOISE = np.random.default_rng(3).uniform(-0.5, 0.5, 24_000).astype(np.float32)
STEP_SECONDS = 0.5
"""One token, and the look at the figures; CPUs are shared."""


@pytest.fixture(scope="module")
def server(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkServer]:
    repository, ports = tmp_path_factory.mktemp("repository"), free_ports()
    render_scripted(checkpoint, repository, ports.triton)
    yield from served(ports, "--repository", str(repository))


@pytest.fixture(scope="module")
def decoder(checkpoint: Path) -> BiCodecDecoder:
    return BiCodecDecoder.load(checkpoint / "BiCodec")


def offline(decoder: BiCodecDecoder, semantic: Any, voice: Any) -> Any:
    """Decode all tokens in one piece."""
    rows = torch.from_numpy(np.asarray(semantic, np.int64))[None]
    voices = torch.from_numpy(np.asarray(voice, np.int64))[None]
    return decoder.decode(rows, voices, torch.tensor([rows.shape[1]]))[0].numpy()


@pytest.mark.parametrize("tokens", [1, 50, 700], ids=["one token", "a second", "a long text"])
def test_joined_chunks_are_the_offline_waveform(
    server: SparkServer, decoder: BiCodecDecoder, tokens: int
) -> None:
    request = spoken(5, tokens, pace_ms=0.2)

    heard = server.hear(request)

    assert heard.is_whole
    expected = offline(decoder, codes(5, tokens), request.global_tokens)
    assert np.abs(heard.samples - expected).max() < 1e-5
    assert len(heard.chunks) > 1 or tokens < 100


def test_a_transcript_lets_the_model_go_on(server: SparkServer, decoder: BiCodecDecoder) -> None:
    reference = np.arange(60, dtype=np.int32)

    request = spoken(6, 80, reference_text="What was said.", semantic_tokens=reference)
    heard = server.hear(request)

    assert heard.is_whole
    expected = offline(decoder, codes(6, 80), request.global_tokens)
    assert np.abs(heard.samples - expected).max() < 1e-5


def test_a_made_voice_comes_with_the_first_chunk(
    server: SparkServer, decoder: BiCodecDecoder
) -> None:
    request = spoken(7, 80, global_tokens=None, gender="male", pitch="low")

    heard = server.hear(request)

    assert heard.is_whole
    voice = heard.chunks[0].global_tokens
    assert voice is not None
    assert voice.tolist() == np.random.default_rng(7).integers(0, 4096, 32).tolist()
    expected = offline(decoder, codes(7, 80), voice)
    assert np.abs(heard.samples - expected).max() < 1e-5


def test_a_recording_speaks_as_its_tokens_do(server: SparkServer) -> None:
    given = {"reference_wav": NOISE, "reference_wav_len": np.array([len(NOISE)], np.int32)}
    voice = server.infer("audio_tokenizer", given, is_batched=False)["global_tokens"]

    by_wav = server.hear(spoken(8, global_tokens=None, reference_wav=NOISE))
    by_tokens = server.hear(spoken(8, global_tokens=voice))

    assert by_wav.is_whole
    np.testing.assert_array_equal(by_wav.samples, by_tokens.samples)


def test_sixteen_at_once_each_sound_as_alone(server: SparkServer) -> None:
    requests = [spoken(seed, 40 + 8 * seed) for seed in range(16)]
    alone = [server.hear(request).samples for request in requests]

    with ThreadPoolExecutor(16) as threads:
        together = list(threads.map(server.hear, requests))

    assert all(heard.is_whole for heard in together)
    for heard, samples in zip(together, alone, strict=True):
        assert np.abs(heard.samples - samples).max() < 1e-5


def broken_off(server: SparkServer, call: Call) -> float:
    """Cancel a call; return the seconds until the language model knew it."""
    before = server.outcomes("llm", "cancelled")
    started = time.monotonic()
    call.cancel()
    until(lambda: server.outcomes("llm", "cancelled") == before + 1)
    seconds = time.monotonic() - started
    heard = call.whole()
    assert (heard.errors, heard.finals) == ([], 2), "the request's and the cancel's"
    return seconds


def test_a_cancel_before_any_token_stops_the_model(server: SparkServer) -> None:
    accepted = server.accepted()
    call = server.call(spoken(9, 100, pace_ms=300))
    until(lambda: server.accepted() == accepted + 1)

    assert broken_off(server, call) < STEP_SECONDS + 0.3


def test_a_cancel_between_chunks_stops_the_model(server: SparkServer) -> None:
    call = server.call(spoken(10, 2000, pace_ms=10))
    next(iter(call))

    assert broken_off(server, call) < STEP_SECONDS


def test_a_cancel_of_one_that_waits_for_the_model_ends_it(server: SparkServer) -> None:
    """The scripted model has 20 threads, so the last call stands in its line."""
    calls = [server.call(spoken(seed, 2000, pace_ms=50)) for seed in range(20)]
    for call in calls:
        next(iter(call))
    accepted = server.accepted()
    waiting = server.call(spoken(20, 50))
    # One that is cancelled earlier is never asked for.
    until(lambda: server.accepted() == accepted + 1)
    before = server.outcomes("llm", "cancelled")

    assert broken_off(server, waiting) < STEP_SECONDS
    for call in calls:
        call.cancel()
    assert [call.whole().finals for call in calls] == [2] * 20
    until(lambda: server.outcomes("llm", "cancelled") == before + 21)


def test_a_client_that_hangs_up_stops_the_model(server: SparkServer) -> None:
    before = server.outcomes("llm", "cancelled")
    call = server.call(spoken(11, 2000, pace_ms=10))
    next(iter(call))

    call.rpc.cancel()

    until(lambda: server.outcomes("llm", "cancelled") == before + 1)


def test_a_failure_of_the_language_model_is_that_requests_alone(server: SparkServer) -> None:
    with ThreadPoolExecutor(4) as threads:
        good = [threads.submit(server.hear, spoken(seed, 150)) for seed in (1, 2, 3)]
        bad = server.hear(spoken(4, 150, top_p=0.1))

    assert [future.result().is_whole for future in good] == [True] * 3
    assert bad.finals == 1
    (error,) = bad.errors
    assert "model 'llm' failed: the model failed: MemoryError: no room" in error


def test_a_failure_of_the_vocoder_is_that_requests_alone(server: SparkServer) -> None:
    window = {
        "semantic_tokens": np.arange(48, dtype=np.int32),
        "length": np.array([40], np.int32),
        "kept_tokens": np.array([3, 33], np.int32),
        "global_tokens": np.arange(32, dtype=np.int32),
    }
    wrong = {**window, "semantic_tokens": window["semantic_tokens"] + 9000}

    def decode(given: dict[str, Any]) -> Any:
        try:
            return server.infer("vocoder", given, is_batched=True)["waveform"]
        except grpc.RpcError as error:
            return error.details()

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(decode, [window, wrong] * 16))

    assert {answer.shape for answer in answers[::2]} == {(30 * 320,)}
    assert all("semantic tokens are 9000 to 9047" in answer for answer in answers[1::2])


@pytest.mark.parametrize(
    ("samples", "words"),
    [(np.zeros(24_000, np.float32), "is silent"), (NOISE[:1000], "0.06 s long")],
    ids=["silence", "too short"],
)
def test_a_recording_that_is_no_voice_is_the_callers_fault(
    server: SparkServer, samples: Any, words: str
) -> None:
    heard = server.hear(spoken(12, global_tokens=None, reference_wav=samples))

    (error,) = heard.errors
    assert INVALID_INPUT in error
    assert words in error
    assert heard.finals == 1


def test_what_cannot_be_asked_is_the_callers_fault(server: SparkServer) -> None:
    heard = server.hear(SynthesisRequest("No voice."))

    (error,) = heard.errors
    assert f"{INVALID_INPUT}'gender' is missing" in error
    assert (heard.finals, heard.chunks) == (1, [])
