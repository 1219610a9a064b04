"""`stream_format: "sse"`: the same audio as events."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest

from fakes.decoding import decode
from fakes.service import SAID, RunningService, assert_ended
from fakes.triton import Fail, FakeTriton, Gate, Hang, Script, tone, tones

SPEECH = "/v1/audio/speech"


def events(text: str) -> list[dict[str, Any]]:
    """Return the events of a body; each is one line and a blank one."""
    *blocks, rest = text.split("\n\n")
    assert rest == ""
    return [json.loads(block.removeprefix("data: ")) for block in blocks]


def audio(of: list[dict[str, Any]]) -> bytes:
    """Return the deltas joined."""
    deltas = [event["audio"] for event in of if event["type"] == "speech.audio.delta"]
    return b"".join(base64.b64decode(delta) for delta in deltas)


@pytest.mark.parametrize("name", ["pcm", "wav", "mp3", "aac", "flac", "opus"])
def test_the_deltas_joined_are_the_file(service: RunningService, name: str) -> None:
    raw = service.say(response_format=name).content

    response = service.say(response_format=name, stream_format="sse")

    joined = audio(events(response.text))
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    if name == "opus":  # Ogg numbers each stream at random.
        assert len(joined) == len(raw)
        assert (decode(joined) == decode(raw)).all()
    else:
        assert joined == raw


def test_the_last_event_says_what_was_used(triton: FakeTriton, service: RunningService) -> None:
    """Characters in; out, fifty tokens for each second of audio."""
    triton.script = Script(tones(10))

    *_, done = events(service.say(stream_format="sse", input="Twelve chars").text)

    usage = {"input_tokens": 12, "output_tokens": 50, "total_tokens": 62}
    assert done == {"type": "speech.audio.done", "usage": usage}
    assert_ended(service, triton, finished=1)


def test_events_come_while_the_model_still_speaks(
    triton: FakeTriton, service: RunningService
) -> None:
    gate = Gate()
    triton.script = Script([tone(), gate, tone()])

    with service.client.stream("POST", SPEECH, json=SAID | {"stream_format": "sse"}) as response:
        lines = response.iter_lines()
        first = json.loads(next(lines).removeprefix("data: "))
        gate.open()
        rest = [line for line in lines if line]

    assert len(base64.b64decode(first["audio"])) == 2 * len(tone())
    assert "speech.audio.done" in rest[-1]


@pytest.mark.parametrize(
    ("step", "code", "outcome"),
    [(Fail("boom"), "backend_failed", "failed"), (Hang(), "backend_timeout", "timed_out")],
    ids=["fails", "hangs"],
)
def test_a_model_that_breaks_off_is_an_error_event_and_a_body_without_end(
    triton: FakeTriton, step: Any, code: str, outcome: str
) -> None:
    """LiveKit's plugin skips events that it does not know: it has to see the broken body."""
    triton.script = Script([tone(), step])
    request = SAID | {"stream_format": "sse"}
    received: list[str] = []

    with RunningService(triton, gap_timeout_seconds=1.0) as service:
        with (
            pytest.raises(httpx.RemoteProtocolError),
            service.client.stream("POST", SPEECH, json=request) as response,
        ):
            received.extend(response.iter_text())

        *deltas, last = events("".join(received))
        assert len(audio(deltas)) == 2 * len(tone())
        assert last["type"] == "speech.audio.error"
        assert last["error"]["code"] == code
        assert set(last["error"]) == {"message", "type", "param", "code"}
        assert_ended(service, triton, **{outcome: 1})


def test_what_fails_before_audio_is_a_status_and_no_event(
    triton: FakeTriton, service: RunningService
) -> None:
    triton.script = Script([Fail("boom")])

    response = service.say(stream_format="sse")

    assert response.status_code == 502
    assert response.headers["content-type"] == "application/json"
