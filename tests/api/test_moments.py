"""When the figures of a request are there, and which of them a whole answer has."""

from __future__ import annotations

import pytest

from fakes.service import SAID, RunningService, assert_ended
from fakes.triton import Fail, FakeTriton, Gate, Pause, Script, tone

SPEECH = "/v1/audio/speech"


def test_triton_s_full_queue_is_a_refusal_while_a_whole_answer_is_made(triton: FakeTriton) -> None:
    triton.script = Script([tone(), Fail("Exceeds maximum queue size")])

    with RunningService(triton) as service:
        assert service.say(stream=False).status_code == 429
        assert service.log.ended.wait()

        assert service.figures() == {"rejected": 1, "in_flight": 0}
        assert service.metric("speech_requests_refused_total", reason="triton") == 1


def test_the_first_audio_of_a_whole_answer_is_when_it_leaves(
    triton: FakeTriton, service: RunningService
) -> None:
    triton.script = Script([tone(), Pause(0.3), tone(start=2400)])

    assert service.say(stream=False).status_code == 200
    assert_ended(service, triton, finished=1)

    name = "speech_first_audio_seconds"
    assert service.metric(f"{name}_count", delivery="streamed") == 0
    assert service.metric(f"{name}_count", delivery="whole") == 1
    assert service.metric(f"{name}_sum", delivery="whole") > 0.3
    assert service.metric("speech_first_chunk_seconds_sum") < 0.3
    assert service.metric("speech_audio_seconds_total") == pytest.approx(0.2)


def test_what_is_reached_is_counted_while_the_request_goes_on(
    triton: FakeTriton, service: RunningService
) -> None:
    """The figures of a stream of ten minutes would tell of ten minutes ago."""
    triton.script = Script([tone(), Gate()])

    with service.client.stream("POST", SPEECH, json=SAID) as response:
        sound = response.iter_raw()
        next(sound)
        for name in ("admission_wait", "first_chunk", "first_audio"):
            assert service.metric(f"speech_{name}_seconds_count") == 1
        assert service.figures() == {"in_flight": 1}
        triton.script.steps[1].open()
        for _ in sound:
            pass
