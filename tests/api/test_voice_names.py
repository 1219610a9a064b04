"""Voices of the file by name: in the lists, behind aliases, beside the model's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gateway.app import create_app
from gateway.settings import Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fakes.service import RunningService
    from fakes.triton import FakeTriton

    Serve = Callable[..., RunningService]

MAX = {"id": "max", "language": "de"}


def names(service: RunningService) -> list[str]:
    answer = service.client.get("/v1/audio/voices", params={"legacy": "true"})
    return list(answer.json()["voices"])


def test_they_are_listed_after_the_models_own(spark: FakeTriton, serve: Serve) -> None:
    spark.script = replace(spark.script, voices=(MAX,))

    with serve() as service:
        voices = service.client.get("/v1/audio/voices").json()["voices"]
        described = service.client.get("/v1/models/spark_tts").json()["voices"]
        alone = service.client.get("/v1/audio/voices/anna").json()

    assert [(voice["id"], voice["language"]) for voice in voices] == [
        *[("max", "de"), ("anna", "en"), ("carl", None), ("bob", None)]
    ]
    assert described == voices
    assert alone == voices[1]


def test_the_models_own_are_still_spoken(spark: FakeTriton, serve: Serve) -> None:
    spark.script = replace(spark.script, voices=(MAX,))

    with serve() as service:
        assert service.say(model="spark_tts", voice="max").status_code == 200

    [request] = spark.seen.requests
    assert request.voice == "max"
    assert request.global_tokens is None


def test_an_alias_may_stand_for_one(spark: FakeTriton, serve: Serve, tmp_path: Path) -> None:
    aliases = tmp_path / "names.toml"
    aliases.write_text('[models]\ntts-1 = "spark_tts"\n[voices.spark_tts]\nalloy = "anna"\n')

    with serve(aliases_file=aliases) as service:
        answer = service.say(model="tts-1", voice="alloy")
        listed = service.client.get("/v1/audio/voices").json()["voices"]

    assert answer.status_code == 200
    assert spark.seen.requests[0].reference_text == "What anna says."
    assert [voice["alias_of"] for voice in listed if voice["id"] == "alloy"] == ["anna"]


def test_another_name_is_unknown_even_where_the_model_has_none_itself(
    spark: FakeTriton, serve: Serve
) -> None:
    with serve() as service:
        answer = service.say(model="spark_tts", voice="ann")

    assert answer.status_code == 400
    assert "did you mean anna?" in answer.json()["error"]["message"]
    assert spark.seen.requests == []


def test_a_name_that_the_model_has_too_is_nobodys(spark: FakeTriton, serve: Serve) -> None:
    spark.script = replace(spark.script, voices=(MAX, {"id": "anna"}))

    with serve() as service:
        answer = service.say(model="spark_tts", voice="anna")
        listed = names(service)
        others = [service.say(model="spark_tts", voice=name).status_code for name in listed]

    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "misconfigured"
    assert "'anna' of SPEECH_VOICES_FILE is also" in answer.json()["error"]["message"]
    assert listed == ["max", "carl", "bob"]
    assert others == [200, 200, 200]


def test_their_language_counts(serve: Serve) -> None:
    with serve() as service:
        answer = service.say(model="spark_tts", voice="anna", language="zh")

    assert answer.status_code == 400
    assert "voice 'anna' speaks en" in answer.json()["error"]["message"]


def test_a_wrong_file_keeps_the_service_from_starting(voices_file: Path) -> None:
    voices_file.write_text('[spark_tts.anna]\nreference = "none.wav"\n', "utf-8")

    settings = Settings(_env_file=None, models="spark_tts", voices_file=voices_file)

    with pytest.raises(SettingsError, match=r"voices\.toml, line 2: .*none\.wav.*no such file"):
        create_app(settings)
