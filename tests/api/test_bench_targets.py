"""The load generator's targets against the real service and a scripted Triton."""

from __future__ import annotations

import asyncio
import io
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from fakes.service import RunningService
from fakes.triton import Fail, FakeTriton, Hang, Script, tone, tones
from gateway.audio.riff import PcmLayout
from gateway.bench.http_target import HttpTarget
from gateway.bench.load import Load, Names, Target
from gateway.bench.measure import Ear, Measured, measure
from gateway.bench.requests import BenchError, Request, Take, Utterance
from gateway.bench.triton_target import TritonTarget
from gateway.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HELLO = Utterance("a", "Hello.")
NAMED = {"model": "hibari", "voice": "heart"}
FLOATS = Ear(pcm=PcmLayout(24_000, "<f4"))


@contextmanager
def one_answer(answer: str) -> Iterator[str]:
    """Run a server that says this once and hangs up; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer.encode())

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def recorded() -> Utterance:
    file = io.BytesIO()
    soundfile.write(file, tone(48_000), 24_000, "PCM_16", format="WAV")
    return Utterance("r", "Hello.", file.getvalue(), "What was said.")


def listen(
    make: Callable[[], Target], ear: Ear, utterance: Utterance = HELLO, **request: Any
) -> Measured:
    """Make one request and measure it."""
    takes: list[Take] = []

    async def run() -> None:
        target = make()
        try:
            await Load(target, 10, takes.append).closed([Request(0, utterance, **request)], 1)
        finally:
            await target.aclose()

    asyncio.run(run())
    [take] = takes
    return measure(take, "c1", take.sent_seconds, ear)


def prepared(make: Callable[[], Target], *utterances: Utterance) -> Names:
    async def run() -> Names:
        target = make()
        try:
            return await target.prepare(utterances)
        finally:
            await target.aclose()

    return asyncio.run(run())


def triton_target(triton: FakeTriton, voice: str | None = None) -> Callable[[], Target]:
    settings = Settings(_env_file=None, triton_address=triton.address)
    return lambda: TritonTarget(settings, "hibari", voice)


@pytest.mark.parametrize("audio_format", ["pcm", "wav", "mp3", "opus", "aac", "flac"])
def test_every_format_is_heard(
    triton: FakeTriton, service: RunningService, audio_format: str
) -> None:
    triton.script = Script(tones(10))

    one = listen(lambda: HttpTarget(service.base_url, audio_format, NAMED), Ear(audio_format))

    assert one.outcome == "ok"
    assert one.audio_seconds == pytest.approx(1.0, abs=0.1)
    assert one.first_byte_seconds is not None
    assert one.first_audible_seconds is not None
    assert 0 < one.first_byte_seconds <= one.first_audible_seconds <= one.total_seconds


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_names_that_are_not_given_are_the_servers_first(
    service: RunningService, suffix: str
) -> None:
    make = lambda: HttpTarget(service.base_url + suffix, "pcm", {})  # noqa: E731

    assert prepared(make, HELLO) == Names("hibari", "heart")


def test_a_server_without_lists_wants_names(service: RunningService) -> None:
    with pytest.raises(BenchError, match="name --model and --voice"):
        prepared(lambda: HttpTarget(f"{service.base_url}/nowhere", "pcm", {}), HELLO)


@pytest.mark.parametrize("lists", ['{"data": []}', "[]", '"no"'])
def test_lists_of_another_kind_want_names_too(lists: str) -> None:
    with (
        one_answer(f"HTTP/1.1 200 OK\r\n\r\n{lists}") as url,
        pytest.raises(BenchError, match="name --model and --voice"),
    ):
        prepared(lambda: HttpTarget(url, "pcm", {}), HELLO)


def test_a_server_that_is_not_there_is_not_asked_for_names() -> None:
    with pytest.raises(BenchError, match=r"http://127.0.0.1:9 cannot be reached: (?!.*--model)"):
        prepared(lambda: HttpTarget("http://127.0.0.1:9", "pcm", {}), HELLO)


def test_an_http_target_on_tritons_port_is_told_what_fits(triton: FakeTriton) -> None:
    url = f"http://{triton.address}"

    one = listen(lambda: HttpTarget(url, "pcm", NAMED), Ear())

    assert one.outcome == "no HTTP"
    assert one.detail == f"{url} is no HTTP server (a Triton? then grpc://HOST:PORT is right)"
    with pytest.raises(BenchError, match="is no HTTP server"):
        prepared(lambda: HttpTarget(url, "pcm", {}), HELLO)


def test_a_rate_of_its_own_is_heard(triton: FakeTriton) -> None:
    triton.script = Script(tones(5, 1600, 16_000), sample_rate_hz=16_000)
    with RunningService(triton, keep_native_rate=True) as service:
        one = listen(lambda: HttpTarget(service.base_url, "pcm", NAMED), Ear())

    assert one.audio_seconds == pytest.approx(0.5)


def test_an_error_is_counted_by_its_status(service: RunningService) -> None:
    wrong = NAMED | {"voice": "nobody"}

    one = listen(lambda: HttpTarget(service.base_url, "pcm", wrong), Ear())

    assert one.outcome == "HTTP 400"
    assert "voice 'nobody' is not known" in one.detail


def test_a_key_is_sent(triton: FakeTriton) -> None:
    with RunningService(triton, api_keys="correct-horse") as service:
        without = listen(lambda: HttpTarget(service.base_url, "pcm", NAMED), Ear())
        with_key = listen(
            lambda: HttpTarget(service.base_url, "pcm", NAMED, "correct-horse"), Ear()
        )

    assert (without.outcome, with_key.outcome) == ("HTTP 401", "ok")


def test_a_key_that_a_server_repeats_is_not_kept(service: RunningService) -> None:
    wrong = NAMED | {"voice": "correct-horse"}

    one = listen(lambda: HttpTarget(service.base_url, "pcm", wrong, "correct-horse"), Ear())

    assert "voice '***' is not known" in one.detail


def test_speech_that_breaks_off_is_no_speech(triton: FakeTriton, service: RunningService) -> None:
    triton.script = Script([tone(), Fail("broken")])

    one = listen(lambda: HttpTarget(service.base_url, "pcm", NAMED), Ear())

    assert one.outcome == "cut"
    assert one.audio_seconds == pytest.approx(0.1)
    assert not one.is_counted


def test_nobody_there_is_a_failure() -> None:
    one = listen(lambda: HttpTarget("http://127.0.0.1:9", "pcm", NAMED), Ear())

    assert one.outcome == "no connection"


def test_silence_is_a_failure(triton: FakeTriton, service: RunningService) -> None:
    triton.script = Script([np.zeros(2400, np.float32)])

    assert listen(lambda: HttpTarget(service.base_url, "pcm", NAMED), Ear()).outcome == "silent"


def test_a_recording_that_the_server_does_not_use_is_a_failure(service: RunningService) -> None:
    """Whoever measures cloning must not get figures of another voice."""
    one = listen(lambda: HttpTarget(service.base_url, "pcm", NAMED), Ear(), recorded())

    assert one.outcome == "fields ignored"
    assert "ref_audio" in one.detail


def test_hanging_up_stops_the_model(triton: FakeTriton, service: RunningService) -> None:
    triton.script = Script([tone(), Hang()])

    one = listen(
        lambda: HttpTarget(service.base_url, "pcm", NAMED),
        Ear(),
        manner="hangs up",
        hang_up_seconds=0.2,
    )

    assert one.outcome == "hung up"
    assert triton.seen.cancelled.wait()


def test_a_triton_is_heard_directly(triton: FakeTriton) -> None:
    triton.script = Script(tones(5, 1600, 16_000), sample_rate_hz=16_000)

    one = listen(triton_target(triton, "fable"), FLOATS)

    assert one.outcome == "ok"
    assert one.audio_seconds == pytest.approx(0.5)
    [request] = triton.seen.requests
    assert (request.target_text, request.voice) == ("Hello.", "fable")


def test_tritons_recording_travels_with_the_request(triton: FakeTriton) -> None:
    inputs = ("reference_wav", "reference_wav_len", "reference_text")
    triton.script = Script(tones(), extra_inputs=inputs)
    utterance = recorded()

    assert prepared(triton_target(triton), utterance) == Names("hibari", None)
    assert listen(triton_target(triton), FLOATS, utterance).outcome == "ok"

    [request] = triton.seen.requests
    assert request.reference_text == "What was said."
    assert request.reference_wav is not None
    assert len(request.reference_wav) == 2 * 16_000


def test_the_first_voice_of_the_model_speaks(triton: FakeTriton) -> None:
    assert prepared(triton_target(triton), HELLO) == Names("hibari", "heart")


def test_what_the_model_does_not_take_is_said_before_the_run(triton: FakeTriton) -> None:
    with pytest.raises(BenchError, match=r"does not take \['reference_text', 'reference_wav'\]"):
        prepared(triton_target(triton), recorded())


def test_an_unknown_model_is_said_before_the_run(triton: FakeTriton) -> None:
    settings = Settings(_env_file=None, triton_address=triton.address)

    with pytest.raises(BenchError, match="does not have this model"):
        prepared(lambda: TritonTarget(settings, "nobody", None), HELLO)


def test_a_model_that_fails_is_counted(triton: FakeTriton) -> None:
    triton.script = Script([tone(), Fail("broken")])

    one = listen(triton_target(triton), FLOATS)

    assert one.outcome == "backend_failed"
    assert "broken" in one.detail


def test_a_model_that_sends_all_at_once_is_heard_too(triton: FakeTriton) -> None:
    """Upstream's offline mode: one response, which is first and last."""
    triton.script = Script(tones(1, 48_000), is_batched=True)

    one = listen(triton_target(triton), FLOATS)

    assert one.outcome == "ok"
    assert one.first_byte_seconds == one.first_audible_seconds
    assert one.audio_seconds == 3.0  # 48 000 samples at the 16 kHz of models that do not say it
