"""What an operator's probes and Prometheus see."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fakes.service import SAID, RunningService
from fakes.triton import FakeTriton, Hang, Script, tone
from gateway.speech.record import OUTCOMES

BOTH_PROBES = pytest.mark.parametrize("path", ["/readyz", "/health"])


@BOTH_PROBES
def test_ready_when_every_model_is(service: RunningService, path: str) -> None:
    response = service.client.get(path)

    assert response.status_code == 200
    assert response.json()["status"] == "ok"


@BOTH_PROBES
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        pytest.param(Script(is_ready=False), "not ready", id="model not ready"),
        pytest.param(Script(is_speech_model=False), "no speech model", id="no speech model"),
    ],
)
def test_not_ready_says_which_model_and_why(
    triton: FakeTriton, service: RunningService, path: str, script: Script, reason: str
) -> None:
    triton.script = script

    response = service.client.get(path)

    assert response.status_code == 503
    assert reason in response.json()["models"]["hibari"]
    assert service.client.get("/livez").status_code == 200


def test_a_model_that_triton_does_not_have_is_named(triton: FakeTriton) -> None:
    with RunningService(triton, models="hibari,spark") as service:
        response = service.client.get("/readyz")

    assert response.status_code == 503
    assert response.json()["models"].keys() == {"spark"}


@BOTH_PROBES
def test_without_triton_the_service_lives_and_is_not_ready(
    triton: FakeTriton, service: RunningService, path: str
) -> None:
    triton.stop()

    response = service.client.get(path)

    assert response.status_code == 503
    assert "cannot be reached" in response.json()["models"]["hibari"]
    assert service.client.get("/livez").json() == {"status": "ok"}


def test_the_service_starts_before_triton(triton: FakeTriton) -> None:
    triton.stop()

    with RunningService(triton) as service:
        before = service.client.get("/readyz").status_code
        triton.start()
        after = ready_again(service)

    assert before == 503
    assert after == 200


@pytest.mark.parametrize("steps", [[tone()], [tone(), Hang()]], ids=["idle", "speaking"])
def test_a_restarted_triton_is_used_again_without_a_restart_here(
    triton: FakeTriton, service: RunningService, steps: list[Any]
) -> None:
    triton.script = Script(steps)
    with service.send():
        assert triton.seen.started.wait()
        triton.stop()
    assert service.say().status_code == 503

    triton.script = Script()
    triton.start()

    assert ready_again(service) == 200
    assert service.say().status_code == 200


def ready_again(service: RunningService) -> int:
    """Ask until the service is ready; gRPC's back-off lets it try again within a second."""
    give_up_at = time.monotonic() + 10
    status = 503
    while status != 200 and time.monotonic() < give_up_at:
        status = service.client.get("/readyz").status_code
    return status


def test_metrics_are_prometheus_text_with_every_outcome_at_zero(service: RunningService) -> None:
    response = service.client.get("/metrics")

    families = {family.name: family for family in text_string_to_metric_families(response.text)}
    outcomes = {s.labels["outcome"]: s.value for s in families["speech_requests"].samples}
    assert response.headers["content-type"].startswith("text/plain")
    assert outcomes == dict.fromkeys(OUTCOMES, 0)
    assert families.keys() >= {
        "speech_requests",
        "speech_first_audio_seconds",
        "speech_audio_seconds",
        "speech_requests_in_flight",
        "speech_requests_waiting",
        "speech_admission_wait_seconds",
        "speech_requests_refused",
    }
    assert all(family.documentation for family in families.values())


def test_metrics_count_the_seconds_that_were_heard(service: RunningService) -> None:
    service.say()
    service.say()
    assert service.log.ended.wait(2)

    assert service.metric("speech_audio_seconds_total") == pytest.approx(0.6)
    assert service.metric("speech_first_audio_seconds_count") == 2


def test_silent_and_too_short_audio_are_counted(
    triton: FakeTriton, service: RunningService
) -> None:
    for steps in ([tone()], [np.zeros(24_000, np.float32)], [tone(240)]):
        triton.script = Script(steps)
        assert service.say().status_code == 200
    assert service.log.ended.wait(3)

    families = text_string_to_metric_families(service.client.get("/metrics").text)
    suspect = {
        s.labels["reason"]: s.value
        for family in families
        for s in family.samples
        if s.name == "speech_suspect_audio_total"
    }
    assert suspect == {"silent": 1, "too_short": 1}


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/health"])
def test_probes_answer_head_too(service: RunningService, path: str) -> None:
    assert service.client.head(path).status_code == 200


def test_what_only_operators_may_see_is_not_in_readyz(service: RunningService) -> None:
    """Words of Triton can hold header names and paths."""
    with RunningService(service.settings.triton_address, models="ghost") as other:
        answer = other.client.get("/readyz")

    assert answer.status_code == 503
    assert list(answer.json()["models"]) == ["ghost"]
    assert "Request for unknown model" not in answer.text


def test_a_model_whose_parameters_cannot_be_read_is_misconfigured(
    triton: FakeTriton, service: RunningService
) -> None:
    triton.script = Script(voices=({"name": "no id"},))
    service.learn()

    spoken, ready = service.say(), service.client.get("/readyz")

    assert spoken.status_code == 500
    assert spoken.json()["error"]["code"] == "misconfigured"
    assert spoken.headers["x-should-retry"] == "false"
    assert ready.status_code == 503
    assert "parameters" in ready.json()["models"]["hibari"]


def test_proxies_are_told_to_pass_the_audio_on_as_it_comes(service: RunningService) -> None:
    headers = service.say(response_format="wav").headers

    assert headers["cache-control"] == "no-store, no-transform"
    assert headers["x-accel-buffering"] == "no"
    assert headers["content-disposition"] == 'inline; filename="speech.wav"'
    assert headers["x-sample-rate"] == "24000"


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/readyz"], ids=["asked", "only probed"])
def test_a_restarted_triton_may_have_other_voices(
    triton: FakeTriton, service: RunningService, path: str
) -> None:
    assert service.say(voice="heart").status_code == 200
    triton.stop()
    method = "GET" if path == "/readyz" else "POST"
    assert service.client.request(method, path, json=SAID).status_code == 503

    triton.script = Script(voices=[{"id": "nova"}])
    triton.start()

    assert ready_again(service) == 200
    assert service.say(voice="nova").status_code == 200
