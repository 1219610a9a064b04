"""What a caller may name: models, voices and their aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakes.service import RunningService
from fakes.triton import FakeTriton, Script

if TYPE_CHECKING:
    from pathlib import Path

# All but fable, which is a voice of the fake model itself.
OPENAI_VOICES = (
    *("alloy", "ash", "ballad", "cedar", "coral", "echo"),
    *("marin", "nova", "onyx", "sage", "shimmer", "verse"),
)


def test_models_are_listed_as_openai_lists_them(triton: FakeTriton) -> None:
    with RunningService(triton, models="hibari, spark") as service:
        answer = service.client.get("/v1/models").json()

    assert answer["object"] == "list"
    assert [model["id"] for model in answer["data"]][:2] == ["hibari", "spark"]
    assert all(model["object"] == "model" for model in answer["data"])
    assert all(isinstance(model["created"], int) for model in answer["data"])


def test_a_model_is_described_alone_as_in_the_list(service: RunningService) -> None:
    one = service.client.get("/v1/models/hibari")

    assert one.status_code == 200
    listed = service.client.get("/v1/models").json()["data"][0]
    voices = service.client.get("/v1/audio/voices").json()["voices"]
    assert one.json() == listed | {"voices": voices}


def test_an_unknown_model_is_a_404_that_names_those_there_are(service: RunningService) -> None:
    response = service.client.get("/v1/models/tts-9")

    error = response.json()["error"]
    assert response.status_code == 404
    assert error["code"] == "model_not_found"
    assert "tts-9" in error["message"]
    assert "hibari" in error["message"]


def test_voices_have_id_and_name_as_open_webui_wants_them(service: RunningService) -> None:
    voices = service.client.get("/v1/audio/voices").json()["voices"]

    assert [voice["id"] for voice in voices][:2] == ["heart", "fable"]
    assert [voice["name"] for voice in voices] == [voice["id"] for voice in voices]
    assert {voice["model"] for voice in voices} == {"hibari"}
    assert {voice["language"] for voice in voices} == {"en"}


def test_every_listed_voice_can_be_used(service: RunningService) -> None:
    voices = service.client.get("/v1/audio/voices").json()["voices"]

    answers = [service.say(model=voice["model"], voice=voice["id"]) for voice in voices]

    assert {answer.status_code for answer in answers} == {200}


def test_a_model_without_voices_takes_any(triton: FakeTriton, service: RunningService) -> None:
    triton.script = Script(voices=())
    service.learn()

    assert service.client.get("/v1/audio/voices").json() == {"voices": []}
    assert service.say(voice="anything").status_code == 200


def test_voices_without_triton_are_a_503(triton: FakeTriton, service: RunningService) -> None:
    triton.stop()

    response = service.client.get("/v1/audio/voices")

    assert response.status_code == 503
    assert response.json()["error"]["code"] == "backend_unavailable"


def test_open_webui_finds_the_models_under_audio_too(service: RunningService) -> None:
    answer = service.client.get("/v1/audio/models").json()

    assert answer["models"][:2] == [
        {"id": "hibari", "name": "hibari"},
        {"id": "tts-1", "name": "tts-1"},
    ]


def test_voices_are_plain_names_for_clients_that_want_those(service: RunningService) -> None:
    answer = service.client.get("/v1/audio/voices", params={"legacy": "true"}).json()

    assert answer["voices"][:3] == ["heart", "fable", "alloy"]


def test_a_voice_is_described_alone_as_in_the_list(service: RunningService) -> None:
    listed = service.client.get("/v1/audio/voices").json()["voices"]

    assert service.client.get("/v1/audio/voices/fable").json() == listed[1]


def test_an_unknown_voice_is_answered_with_the_nearest(service: RunningService) -> None:
    alone = service.client.get("/v1/audio/voices/hart")
    spoken = service.say(voice="hart")

    assert alone.status_code == spoken.status_code == 400
    assert alone.json() == spoken.json()
    assert "did you mean heart?" in spoken.json()["error"]["message"]


def test_openais_names_are_listed_with_what_they_stand_for(service: RunningService) -> None:
    models = service.client.get("/v1/models").json()["data"]
    voices = service.client.get("/v1/audio/voices").json()["voices"]

    assert {m["id"]: m["alias_of"] for m in models}["gpt-4o-mini-tts"] == "hibari"
    assert {v["id"]: v["alias_of"] for v in voices} == {
        "heart": None,
        "fable": None,
        **dict.fromkeys(OPENAI_VOICES, "heart"),
    }


def test_openais_names_speak_as_what_they_stand_for(
    triton: FakeTriton, service: RunningService
) -> None:
    response = service.say(model="gpt-4o-mini-tts", voice="alloy")

    [request] = triton.seen.requests
    assert response.status_code == 200
    assert request.voice == "heart"


def test_a_voice_of_the_model_is_never_taken_for_an_alias(
    triton: FakeTriton, service: RunningService
) -> None:
    service.say(voice="fable")

    assert [request.voice for request in triton.seen.requests] == ["fable"]


def test_an_alias_for_a_voice_that_the_model_lost_is_unknown_and_not_listed(
    triton: FakeTriton, service: RunningService
) -> None:
    triton.script = Script(voices=({"id": "fable", "language": "en"},))
    service.learn()

    listed = service.client.get("/v1/audio/voices", params={"legacy": "true"}).json()
    spoken = service.say(voice="alloy")

    assert listed == {"voices": ["fable"]}
    assert spoken.status_code == 400
    assert spoken.json()["error"]["code"] == "voice_not_found"


def test_a_file_of_ones_own_is_used(triton: FakeTriton, tmp_path: Path) -> None:
    names = tmp_path / "names.toml"
    names.write_text('[models]\nlaut = "hibari"\n[voices.hibari]\n"小明" = "fable"\n', "utf-8")

    with RunningService(triton, aliases_file=names) as service:
        spoken = service.say(model="laut", voice="小明")
        refused = service.say(model="tts-1")

    assert spoken.status_code == 200
    assert [request.voice for request in triton.seen.requests] == ["fable"]
    assert refused.status_code == 404


def test_a_model_that_triton_lacks_hides_no_other_models_voices(triton: FakeTriton) -> None:
    with RunningService(triton, models="nope,hibari") as service:
        listed = service.client.get("/v1/audio/voices", params={"legacy": "true"}).json()
        alone = service.client.get("/v1/models/nope").json()["error"]

    assert listed["voices"][:2] == ["heart", "fable"]
    assert "model 'nope'" in alone["message"]
