"""`stream` false: the answer is whole before it is sent."""

from __future__ import annotations

import io
import wave
from typing import TYPE_CHECKING

import pytest

from fakes.decoding import decode
from fakes.service import RunningService, assert_ended
from fakes.triton import Fail, FakeTriton, Gate, Hang, Script, tone, tones

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakes.script import Step

FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")


@pytest.mark.parametrize("audio_format", FORMATS)
def test_a_whole_answer_has_the_bytes_of_the_streamed_one(
    service: RunningService, audio_format: str
) -> None:
    streamed = service.say(response_format=audio_format)

    whole = service.say(response_format=audio_format, stream=False)

    assert whole.headers["content-length"] == str(len(whole.content))
    assert "content-length" not in streamed.headers
    assert whole.headers["content-type"] == streamed.headers["content-type"]
    if audio_format == "wav":
        assert whole.content[44:] == streamed.content[44:]
    elif audio_format == "opus":  # Ogg numbers each stream at random.
        assert len(decode(whole.content)) == len(decode(streamed.content))
    else:
        assert whole.content == streamed.content


def test_a_whole_wav_has_its_true_sizes(service: RunningService) -> None:
    content = service.say(response_format="wav", stream=False).content

    assert int.from_bytes(content[4:8], "little") == len(content) - 8
    assert int.from_bytes(content[40:44], "little") == len(content) - 44
    with wave.open(io.BytesIO(content)) as strict:
        assert strict.getnframes() == 7200


@pytest.mark.parametrize(
    ("steps", "status", "outcome"),
    [
        pytest.param([tone(), Fail("boom")], 502, "failed", id="fails in the middle"),
        pytest.param([tone(), Hang()], 504, "timed_out", id="hangs in the middle"),
    ],
)
def test_a_failure_in_the_middle_has_a_status_too(
    triton: FakeTriton, steps: Sequence[Step], status: int, outcome: str
) -> None:
    triton.script = Script(steps)

    with RunningService(triton, gap_timeout_seconds=1.0) as service:
        response = service.say(stream=False)

        assert response.status_code == status
        assert response.json()["error"]["message"]
        assert_ended(service, triton, **{outcome: 1})


def test_a_client_that_leaves_cancels_the_model(
    triton: FakeTriton, service: RunningService
) -> None:
    triton.script = Script([tone(), Gate()])

    connection = service.send(stream=False)
    assert triton.seen.started.wait()
    connection.close()

    assert triton.seen.cancelled.wait()
    assert_ended(service, triton, cancelled=1)


def test_events_that_are_no_stream_are_refused(service: RunningService) -> None:
    response = service.say(stream=False, stream_format="sse")

    assert response.status_code == 400
    assert response.json()["error"]["param"] == "stream"


def test_the_stream_field_may_be_true(triton: FakeTriton, service: RunningService) -> None:
    triton.script = Script(tones(2))

    assert service.say(stream=True).content == service.say().content
