"""From text to segments at the front door: what the model gets, what the listener hears."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from fakes.service import SAID, RunningService
from fakes.triton import Fail, FakeTriton, Gate, Hang, Script, tone

SPEECH = "/v1/audio/speech"
PREVIEW = "/v1/audio/speech/preview"
THREE = "One is here. Two is there. Three is nowhere."
SENTENCES = ["One is here.", "Two is there. Three is nowhere."]


def texts(triton: FakeTriton) -> list[str]:
    return [request.target_text for request in triton.seen.requests]


def test_a_text_is_spoken_segment_by_segment(triton: FakeTriton, service: RunningService) -> None:
    response = service.say(input=THREE)

    assert response.status_code == 200
    assert texts(triton) == SENTENCES
    assert len(response.content) == 2 * (2 * 7200 + 3600)
    assert service.log.ended.wait()
    assert service.figures() == {"finished": 1, "in_flight": 0}


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_the_pause_between_segments_is_what_the_caller_says(
    service: RunningService, seconds: float
) -> None:
    response = service.say(input=THREE, text_options={"pause_seconds": seconds})

    pause = max(0.01, seconds)
    assert len(response.content) == 2 * (2 * 7200 + round(pause * 24_000))


def test_no_join_has_a_greater_step_than_the_sine(
    triton: FakeTriton, service: RunningService
) -> None:
    triton.script = Script([tone(2413), tone(2413, start=2413)])

    samples = np.frombuffer(service.say(input=THREE).content, "<i2").astype(int)

    steepest = np.abs(np.diff(tone(2413) * 32767)).max()
    assert np.abs(np.diff(samples)).max() <= steepest + 2


def test_the_first_sentence_is_heard_while_the_second_is_made(
    triton: FakeTriton, service: RunningService
) -> None:
    gate = Gate()
    triton.script = Script(by_text=lambda r: [tone()] if "One" in r.target_text else [gate, tone()])

    with service.client.stream("POST", SPEECH, json=SAID | {"input": THREE}) as response:
        packets = response.iter_raw()
        first = next(packets)
        assert triton.seen.started.wait(2)
        gate.open()
        rest = b"".join(packets)

    assert len(first) == 2 * 2400
    assert len(rest) == 2 * (3600 + 2400)


def test_a_later_segment_that_fails_breaks_the_body_after_the_first(
    triton: FakeTriton, service: RunningService
) -> None:
    triton.script = Script(by_text=lambda r: [tone()] if "One" in r.target_text else [Fail("boom")])

    heard: list[bytes] = []
    with (
        service.client.stream("POST", SPEECH, json=SAID | {"input": THREE}) as response,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        heard.extend(response.iter_raw())

    assert len(b"".join(heard)) == 2 * 2400
    assert service.log.ended.wait()
    assert service.figures() == {"failed": 1, "in_flight": 0}


def test_a_listener_who_leaves_cancels_the_segment_that_is_made_ahead(
    triton: FakeTriton, service: RunningService
) -> None:
    triton.script = Script(by_text=lambda r: [tone()] if "One" in r.target_text else [Hang()])

    with service.client.stream("POST", SPEECH, json=SAID | {"input": THREE}) as response:
        packets = response.iter_raw()
        next(packets)
        assert triton.seen.started.wait(2)

    assert triton.seen.cancelled.wait()
    assert service.log.ended.wait()
    assert service.figures() == {"cancelled": 1, "in_flight": 0}


@pytest.mark.parametrize(
    ("text", "options", "spoken"),
    [
        ("It is **bold** 😀.", {}, "It is bold."),
        ("It is **bold** 😀.", {"sanitize": False}, "It is **bold** 😀."),
        ("See https://a.example/b?c=d now", {"normalize": False}, "See a.example now"),
        (
            "See https://a.example/b",
            {"normalize": False, "urls": "keep"},
            "See https://a.example/b",
        ),
        ("I have 3 cats.", {}, "I have three cats."),
        ("I have 3 cats.", {"normalize": False}, "I have 3 cats."),
        (THREE, {"split": False}, THREE),
    ],
)
def test_the_caller_says_how_a_text_is_prepared(
    triton: FakeTriton,
    service: RunningService,
    text: str,
    options: dict[str, Any],
    spoken: str,
) -> None:
    response = service.say(input=text, text_options=options)

    assert response.status_code == 200
    assert texts(triton) == [spoken]


def test_the_settings_say_it_where_the_caller_does_not(triton: FakeTriton) -> None:
    with RunningService(triton, text_sanitize=False, text_normalize=False) as service:
        service.say(input="**3**")
        service.say(input="**3**", text_options={"sanitize": True})

    assert texts(triton) == ["**3**", "3"]


@pytest.mark.parametrize("text", ["😀", "😀 👩‍👩‍👧", "***", "---", "\u200b\n\u200b"])
def test_a_text_with_nothing_to_speak_is_refused(
    triton: FakeTriton, service: RunningService, text: str
) -> None:
    response = service.say(input=text)

    assert response.status_code == 400
    assert response.json()["error"]["param"] == "input"
    assert triton.seen.started.count == 0


def test_a_preview_shows_what_the_model_would_get(
    triton: FakeTriton, service: RunningService
) -> None:
    body = SAID | {"input": f"# {THREE} 😀"}

    preview = service.client.post(PREVIEW, json=body).json()
    asked = triton.seen.started.count
    service.say(**body)

    assert asked == 0
    assert [s["text"].strip() for s in preview["segments"]] == SENTENCES == texts(triton)
    assert preview["model"] == "hibari"
    assert preview["characters"] == len(THREE)


def test_a_preview_counts_in_the_minute_of_its_key(triton: FakeTriton) -> None:
    with RunningService(triton, key_requests_per_minute=1) as service:
        answers = [service.client.post(PREVIEW, json=SAID) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 429]
    assert answers[1].json()["error"]["code"] == "rate_limit_exceeded"


def test_a_letter_that_the_voice_cannot_read_is_refused_wherever_it_stands(
    triton: FakeTriton,
) -> None:
    triton.script = Script(scripts=["Latin"])

    with RunningService(triton) as service:
        refused = service.say(input="My friend wrote to me. He said Привет.")
        spoken = service.say(input="Naïve, 5 °C, µm, ½, ª: all can be read. ©")

    assert refused.status_code == 400
    assert "CYRILLIC" in refused.json()["error"]["message"]
    assert refused.json()["error"]["param"] == "input"
    assert spoken.status_code == 200


def test_scripts_that_unicode_does_not_know_are_the_operators_fault(triton: FakeTriton) -> None:
    triton.script = Script(scripts=["Latein"])

    with RunningService(triton) as service:
        assert service.say().json()["error"]["code"] == "misconfigured"


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("input", "😀", "input"),
        ("voice", "nobody", "voice"),
        ("language", "klingon", "language"),
        ("language", "fr", "language"),
        ("lang_code", "f", "language"),
        ("text_options", {"sanitise": True}, "text_options"),
        ("text_options", {"pause_seconds": 6}, "text_options"),
        ("text_options", "plain", "text_options"),
    ],
)
@pytest.mark.parametrize("path", [SPEECH, PREVIEW])
def test_what_cannot_be_is_said_with_its_field(
    triton: FakeTriton, service: RunningService, path: str, field: str, value: Any, param: str
) -> None:
    response = service.client.post(path, json=SAID | {field: value})

    error = response.json()["error"]
    assert response.status_code == 400
    assert error["param"] == param
    assert triton.seen.started.count == 0


@pytest.mark.parametrize("language", ["en", "en-US", "EN-gb", "auto", "Auto", "a", "b"])
@pytest.mark.parametrize("field", ["language", "lang_code"])
def test_the_voices_language_may_be_named(
    service: RunningService, field: str, language: str
) -> None:
    response = service.say(**{field: language})

    assert response.status_code == 200
    assert "x-speech-ignored" not in response.headers


def test_a_language_is_taken_where_the_voice_names_none(
    triton: FakeTriton, service: RunningService
) -> None:
    triton.script = Script(voices=({"id": "heart"},))
    service.learn()

    for language in ("fr", "en", None):
        assert service.say(input="J'ai 5 pommes.", language=language).status_code == 200

    assert texts(triton) == ["J'ai 5 pommes.", "J'ai five pommes.", "J'ai five pommes."]
