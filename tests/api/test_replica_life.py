"""Tritons that come, go, drain, die, freeze and differ, while others speak."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias

import httpx
import pytest

from fakes.relay import Relay
from fakes.replicas import FAST, LOST, serve, wait_ready, write
from fakes.service import SAID, RunningService, message_of
from fakes.triton import Fail, FakeTriton, Gate, Hang, Script, tone

if TYPE_CHECKING:
    from pathlib import Path

Pair: TypeAlias = tuple[FakeTriton, FakeTriton]
SPEECH = "/v1/audio/speech"
SHORT_SEGMENTS = {"segment_characters": 30, "first_segment_characters": 30}
TWO_SENTENCES = {"input": "One first sentence is here. And a second one follows now."}


def _gate_of(said: Any, gate: Gate) -> list[Gate]:
    return [gate] if "One" in said.target_text else []


def test_a_dead_one_is_left_out_and_used_again(pair: Pair) -> None:
    dead, alive = pair

    with serve(*pair, **FAST) as service:
        wait_ready(service, *pair)
        dead.stop()
        answers = [service.say() for _ in range(10)]
        service.wait_state(dead.address, "connecting")
        seen = alive.seen.started.count
        ready = service.client.get("/readyz").status_code
        dead.start()
        wait_ready(service, dead)

    assert {answer.status_code for answer in answers} == {200}
    assert seen == 10
    assert ready == 200


def test_one_that_drains_finishes_what_it_has_and_gets_nothing_new(
    pair: Pair,
) -> None:
    gate = Gate()
    for triton in pair:
        triton.script = Script([tone(), gate, tone()])

    with (
        serve(*pair, **FAST) as service,
        service.client.stream("POST", SPEECH, json=SAID) as response,
    ):
        pieces = response.iter_bytes()
        heard = len(next(pieces))
        [going] = [triton for triton in pair if triton.seen.started.count]
        [staying] = [triton for triton in pair if triton is not going]
        going.door.is_draining = True
        service.wait_state(going.address, "connecting")
        staying.script = Script()
        assert {service.say().status_code for _ in range(10)} == {200}
        gate.open()
        heard += sum(len(piece) for piece in pieces)

    assert heard == 2 * 2 * 2400
    assert going.seen.started.count == 1


@pytest.mark.parametrize("path", ["/readyz", "/health"])
def test_ready_is_one_for_each_model(path: str) -> None:
    with FakeTriton(models=("hibari",)) as one, FakeTriton(models=("spark",)) as other:
        with serve(one, other, models="hibari,spark,ghost") as service:
            missing = service.client.get(path)
        with serve(one, other, models="hibari,spark") as service:
            both = service.client.get(path)
            spoken = [service.say(model=model).status_code for model in ("hibari", "spark")]
            other.stop()
            half = service.client.get(path)

    assert missing.json()["models"].keys() == {"ghost"}
    assert both.status_code == 200
    assert spoken == [200, 200]
    assert (half.status_code, half.json()["models"].keys()) == (503, {"spark"})


def test_readyz_does_not_wait_for_one_that_hangs(triton: FakeTriton) -> None:
    with (
        FakeTriton() as other,
        Relay(other.address) as relay,
        RunningService(f"{triton.address},{relay.address}") as service,
    ):
        service.wait_state(relay.address, "ready")
        relay.freeze()
        started_at = time.monotonic()
        answer = service.client.get("/readyz")
        took_seconds = time.monotonic() - started_at
        relay.thaw()

    assert answer.status_code == 200
    assert took_seconds < 2


@pytest.mark.parametrize(("checkpoint", "goes_on"), [("one", True), ("another", False)])
def test_a_text_goes_on_elsewhere_only_with_the_same_checkpoint(
    tmp_path: Path, checkpoint: str, *, goes_on: bool
) -> None:
    """With another one, the voice would be another person's in the middle of the text."""
    file, gate = tmp_path / "tritons.json", Gate()
    first = Script(checkpoint="one", by_text=lambda said: [tone(), *_gate_of(said, gate)])
    with (
        FakeTriton(first) as one,
        FakeTriton(Script(checkpoint=checkpoint)) as other,
        RunningService(write(file, one), **SHORT_SEGMENTS, **FAST) as service,
        service.client.stream("POST", SPEECH, json=SAID | TWO_SENTENCES) as response,
    ):
        pieces = response.iter_bytes()
        next(pieces)
        write(file, one, other)
        wait_ready(service, other)
        one.script = Script([LOST], checkpoint="one")
        gate.open()
        if goes_on:
            assert list(pieces)
        else:
            with pytest.raises(httpx.RemoteProtocolError):
                list(pieces)

    assert other.seen.started.count == goes_on


def test_replicas_are_shown_as_plain_data(pair: Pair) -> None:
    with serve(*pair) as service:
        wait_ready(service, *pair)
        shown = service.replicas()

    assert shown.keys() == {triton.address for triton in pair}
    one = shown[pair[0].address]
    assert one.pop("state_seconds") >= 0
    assert one == {
        "name": pair[0].address,
        "address": pair[0].address,
        "tls": "off",
        "state": "ready",
        "in_flight": 0,
        "capacity": 16,
        "ejections": 0,
        "last_error": "",
        "last_error_seconds": None,
        "models": ["hibari"],
        "set_aside": [],
    }


def test_a_file_adds_and_removes_tritons_under_way(pair: Pair, tmp_path: Path) -> None:
    file = tmp_path / "tritons.json"
    gate = Gate()
    one, other = pair
    one.script = Script([tone(), gate, tone()])

    with RunningService(write(file, one), **FAST) as service:
        with service.client.stream("POST", SPEECH, json=SAID) as response:
            pieces = response.iter_bytes()
            heard = len(next(pieces))
            write(file, other)
            service.wait_state(other.address, "ready")
            service.wait_state(one.address, "draining")
            capacity = service.replicas()[other.address]["capacity"]
            assert service.say().status_code == 200
            gate.open()
            heard += sum(len(piece) for piece in pieces)
        service.wait_state(one.address, "gone")

    assert heard == 2 * 2 * 2400
    assert (one.seen.started.count, other.seen.started.count) == (1, 1)
    assert capacity == 3


def test_without_any_address_the_reason_is_said(tmp_path: Path) -> None:
    file = tmp_path / "none.toml"

    with RunningService(f"file://{file}") as service:
        spoken, ready = service.say(), service.client.get("/readyz")
        problem = service.client.get("/v1/replicas").json()["problem"]
        is_ok = service.metric("speech_discovery_ok")
        file.write_text("replica = []", "utf-8")

    assert "SPEECH_TRITON_ADDRESS" in message_of(spoken, 503, "backend_unavailable")
    assert ready.status_code == 503
    assert problem == f"{file} cannot be read: No such file or directory"
    assert is_ok == 0


def test_a_connection_that_froze_is_given_up(triton: FakeTriton) -> None:
    """TCP would wait for minutes; meanwhile the Triton behind it is well."""
    settings = FAST | {"probe_timeout_seconds": 0.2, "first_audio_timeout_seconds": 0.2}
    with Relay(triton.address) as relay, RunningService(relay.address, **settings) as service:
        service.wait_state(relay.address, "ready")
        relay.strand()
        lost = service.say()
        until = time.monotonic() + 10
        while service.say().status_code != 200:
            assert time.monotonic() < until

    assert lost.status_code == 504


def test_what_is_known_of_a_triton_outlives_its_connection(pair: Pair) -> None:
    bad, _ = pair
    bad.script = Script([LOST])
    settings = FAST | {"probe_timeout_seconds": 0.2}
    with (
        Relay(bad.address) as relay,
        RunningService(f"{relay.address},{pair[1].address}", **settings) as service,
    ):
        service.wait_state(relay.address, "ready")
        while not service.replicas()[relay.address]["ejections"]:
            service.say()
        bad.script = Script()
        service.wait_state(relay.address, "ready")
        connections = relay.taken
        relay.strand()
        service.wait_state(relay.address, "connecting")
        service.wait_state(relay.address, "ready")
        known = service.replicas()[relay.address]

    assert relay.taken > connections
    assert known["ejections"] == 1


def test_one_slow_answer_is_no_reason_to_give_a_triton_up(triton: FakeTriton) -> None:
    with Relay(triton.address) as relay:
        settings = {"probe_timeout_seconds": 0.2, "probe_interval_seconds": 0.1}
        with RunningService(relay.address, **settings) as service:
            service.wait_state(relay.address, "ready")
            relay.freeze()
            service.learn()
            relay.thaw()
            state = service.replicas()[relay.address]

    assert (state["state"], state["models"]) == ("ready", ["hibari"])
    assert "has not answered" in state["last_error"]


@pytest.mark.parametrize(
    "steps", [[Fail("CUDA error")], [Hang()], []], ids=["fails", "hangs", "mute"]
)
def test_one_that_only_says_it_is_ready_is_found_by_having_it_speak(
    pair: Pair, steps: list[Any]
) -> None:
    bad, good = pair
    bad.script = Script(steps)
    settings = FAST | {"deep_probe_interval_seconds": 0.1, "first_audio_timeout_seconds": 1.0}

    with serve(*pair, **settings) as service:
        service.wait_state(bad.address, "ejected")
        wait_ready(service, good)
        states = service.replicas()
        bad.script = Script()
        wait_ready(service, bad)

    assert states[good.address]["state"] == "ready"
    assert states[bad.address]["ejections"] >= 1
    assert {said.target_text for said in good.seen.requests} == {"Yes."}


def test_who_waits_for_a_stream_is_told_when_its_triton_is_gone(triton: FakeTriton) -> None:
    """Not that it has no room, and not after the whole wait."""
    triton.script = Script([Hang()])
    settings = {"replica_max_streams": 1, "admission_wait_seconds": 15.0}
    with RunningService(triton, **settings, **FAST) as service, ThreadPoolExecutor(2) as pool:
        running = [pool.submit(service.say) for _ in range(2)]
        assert triton.seen.started.wait()
        service.wait_in_flight(2)
        triton.stop()
        answers = [answer.result() for answer in running]

    assert [message_of(answer, 503, "backend_unavailable") for answer in answers]


def test_of_those_that_fail_no_more_than_a_share_is_ejected(pair: Pair) -> None:
    for triton in pair:
        triton.script = Script([Fail("Stub process 'hibari_0' is not healthy.")])

    with serve(*pair, probe_interval_seconds=600.0) as service:
        wait_ready(service, *pair)
        for _ in range(10):
            assert service.say().status_code == 503
        states = sorted(one["state"] for one in service.replicas().values())

    assert states == ["ejected", "ready"]
