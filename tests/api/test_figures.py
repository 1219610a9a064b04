"""Each figure of the service, by each way in which a request can end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest

from fakes.service import SAID, RunningService, assert_ended
from fakes.triton import Abort, Fail, FakeTriton, Gate, Hang, Pause, Script, tone, tones

if TYPE_CHECKING:
    from collections.abc import Callable

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
NAME = re.compile("`([a-z_]+)`")
SPEECH = "/v1/audio/speech"
UNAVAILABLE = Abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
TWO_SEGMENTS = "One sentence is here. " * 6
BY_VALUE = ("speech_errors_total", "speech_requests_cancelled_total", "speech_streams_broken_total")


def counted(service: RunningService) -> dict[str, float]:
    """Return the counters of endings that are not zero, by their label."""
    return {
        f"{sample.name}:{sample.labels.get('code') or sample.labels.get('stage', '')}": sample.value
        for sample in service.samples()
        if sample.name in BY_VALUE and sample.value
    }


def broken_off(service: RunningService, **fields: Any) -> None:
    with (
        pytest.raises(httpx.RemoteProtocolError),
        service.client.stream("POST", SPEECH, json=SAID | fields) as response,
    ):
        response.read()


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([Fail("boom")], "backend_failed"),
        ([UNAVAILABLE], "backend_unavailable"),
        ([Fail("Exceeds maximum queue size")], "overloaded"),
        ([Fail("invalid_input: no letters")], "invalid_value"),
        ([], "no_audio"),
        ([Hang()], "backend_timeout"),
    ],
)
@pytest.mark.parametrize("whole", [{}, {"stream": False}], ids=["streamed", "whole"])
def test_an_error_is_counted_by_its_code_and_broke_nothing_before_audio(
    triton: FakeTriton, steps: list[Any], code: str, whole: dict[str, Any]
) -> None:
    triton.script = Script(steps)

    with RunningService(triton, first_audio_timeout_seconds=0.2) as service:
        assert service.say(**whole).json()["error"]["code"] == code
        assert service.log.ended.wait()

        assert counted(service) == {f"speech_errors_total:{code}": 1}
        assert service.metric("speech_first_chunk_seconds_count") == 0
        assert service.metric("speech_stream_seconds_count") == 0
        assert service.metric("speech_realtime_factor_count") == 0


@pytest.mark.parametrize(
    ("last", "code", "cause"),
    [
        (Fail("boom"), "backend_failed", "failed"),
        (UNAVAILABLE, "backend_unavailable", "unavailable"),
        (Hang(), "backend_timeout", "timeout"),
        (Fail("invalid_input: x"), "invalid_value", "invalid_input"),
    ],
)
def test_a_failure_after_audio_broke_a_stream(
    triton: FakeTriton, last: Any, code: str, cause: str
) -> None:
    triton.script = Script([tone(), last])

    with RunningService(triton, gap_timeout_seconds=0.2) as service:
        broken_off(service)
        assert service.log.ended.wait()

        assert counted(service) == {
            f"speech_errors_total:{code}": 1,
            "speech_streams_broken_total:": 1,
        }
        labels = {"model": "hibari", "replica": triton.address}
        assert service.metric("speech_upstream_errors_total", **labels) == 1
        assert service.metric("speech_upstream_errors_total", **labels, **{"class": cause}) == 1
        assert service.metric("speech_first_chunk_seconds_count") == 1
        assert service.metric("speech_stream_seconds_count") == 1
        assert service.metric("speech_realtime_factor_count") == 0


def test_a_whole_answer_that_fails_half_way_broke_nothing(triton: FakeTriton) -> None:
    triton.script = Script([tone(), Fail("boom")])

    with RunningService(triton) as service:
        assert service.say(stream=False).status_code == 502
        assert service.log.ended.wait()

        assert counted(service) == {"speech_errors_total:backend_failed": 1}
        assert service.metric("speech_audio_seconds_total") == 0
        assert service.metric("speech_first_audio_seconds_count") == 0


def test_no_series_tells_when_it_was_made(service: RunningService) -> None:
    service.say()

    assert "_created" not in service.client.get("/metrics").text


def test_a_call_that_finds_nobody_is_an_upstream_error_and_one_that_is_not_made_is_none(
    triton: FakeTriton, service: RunningService
) -> None:
    """After the first, the service knows that no Triton is there."""
    service.wait_state(triton.address, "ready")
    triton.stop()
    for _ in range(2):
        assert service.say().status_code == 503
    assert service.log.ended.wait(2)

    assert service.metric("speech_upstream_errors_total", **{"class": "unavailable"}) == 1
    assert service.metric("speech_errors_total", code="backend_unavailable") == 2


def left_in_the_queue(triton: FakeTriton, service: RunningService) -> None:
    with service.client.stream("POST", SPEECH, json=SAID) as first:
        with service.send():
            while service.metric("speech_requests_waiting") < 1:
                pass
        assert service.log.ended.wait()
        assert counted(service) == {"speech_requests_cancelled_total:admission": 1}
        triton.script.steps[1].open()
        first.read()


def left_before_audio(triton: FakeTriton, service: RunningService) -> None:
    triton.script = Script([Hang()])
    with service.send():
        assert triton.seen.started.wait()
        assert service.metric("speech_segments_in_flight", replica=triton.address) == 1


def left_before_the_whole(triton: FakeTriton, service: RunningService) -> None:
    with service.send(stream=False):
        assert triton.seen.started.wait()


def left_mid_stream(_: FakeTriton, service: RunningService) -> None:
    with service.client.stream("POST", SPEECH, json=SAID) as response:
        next(response.iter_raw())


@pytest.mark.parametrize(
    ("leave", "stage", "requests"),
    [
        (left_in_the_queue, "admission", 2),
        (left_before_audio, "first_audio", 1),
        (left_before_the_whole, "first_audio", 1),
        (left_mid_stream, "streaming", 1),
    ],
)
def test_a_client_that_leaves_is_counted_by_what_it_waited_for(
    triton: FakeTriton,
    leave: Callable[[FakeTriton, RunningService], None],
    stage: str,
    requests: int,
) -> None:
    triton.script = Script([tone(), Gate()])
    limits = {"max_concurrent_requests": 1, "admission_wait_seconds": 10}

    with RunningService(triton, **limits) as service:
        leave(triton, service)
        assert service.log.ended.wait(requests)

        assert counted(service) == {f"speech_requests_cancelled_total:{stage}": 1}
        assert service.metric("speech_segments_in_flight") == 0
        assert service.metric("speech_upstream_errors_total") == 0


def test_a_finished_request_has_its_times_and_amounts(
    triton: FakeTriton, service: RunningService
) -> None:
    triton.script = Script(tones(3, samples=24_000))
    service.say()
    assert_ended(service, triton, finished=1)

    assert service.metric("speech_chunk_gap_seconds_count") == 2
    for name in ("first_chunk_seconds", "stream_seconds", "realtime_factor"):
        assert service.metric(f"speech_{name}_count", model="hibari") == 1
    spent = service.metric("speech_stream_seconds_sum")
    assert 0 < service.metric("speech_first_chunk_seconds_sum") < spent
    assert 0 < 3 * service.metric("speech_realtime_factor_sum") <= spent
    assert service.metric("speech_text_characters_total") == len(SAID["input"])
    assert service.metric("speech_underruns_total") == 0
    assert counted(service) == {}


def test_no_gap_is_counted_between_two_segments(
    triton: FakeTriton, service: RunningService
) -> None:
    service.say(input=TWO_SEGMENTS)
    assert_ended(service, triton, finished=1)

    segments = triton.seen.started.count
    assert segments > 1
    assert service.metric("speech_chunk_gap_seconds_count") == 2 * segments


@pytest.mark.parametrize(
    ("fields", "underruns"), [({}, 1), ({"stream": False}, 0)], ids=["streamed", "whole"]
)
def test_speech_that_comes_too_late_is_an_underrun(
    triton: FakeTriton, service: RunningService, fields: dict[str, Any], underruns: int
) -> None:
    triton.script = Script([tone(), Pause(0.5), tone(start=2400)])

    service.say(**fields)
    assert service.log.ended.wait()

    assert service.metric("speech_underruns_total") == underruns
    late = service.metric("speech_underrun_seconds_total")
    waited = service.metric("speech_chunk_gap_seconds_sum")
    assert waited > 0.45
    assert late == 0 or waited - 0.35 < late < waited
    assert (late > 0) == (underruns > 0)


def test_label_values_come_from_closed_sets(triton: FakeTriton) -> None:
    hostile = 'evil"} 1\n'
    with RunningService(triton, api_keys="alice:correct-horse") as service:
        service.client.headers["authorization"] = "Bearer correct-horse"
        bodies = [{"model": hostile}, {"voice": hostile}, {"input": hostile}, {"language": hostile}]
        statuses = [service.say(**body).status_code for body in bodies]
        service.client.headers["authorization"] = f"Bearer {hostile.strip()}"
        statuses.append(service.say().status_code)
        assert service.log.ended.wait(2)
        text = service.client.get("/metrics").text
        labels = {sample.labels.get("model", "hibari") for sample in service.samples()}

    assert statuses == [404, 400, 200, 400, 401]
    assert "evil" not in text
    assert "alice" not in text
    assert "correct-horse" not in text
    assert labels == {"hibari", "audio_tokenizer", "none"}


def test_every_series_is_there_before_its_first_event(
    triton: FakeTriton, service: RunningService
) -> None:
    before = {(s.name, *sorted(s.labels.items())) for s in service.samples()}

    triton.script = Script(tones())
    service.say()
    triton.script = Script([Fail("boom")])
    service.say()
    triton.script = Script([tone(), Fail("boom")])
    broken_off(service)
    assert service.log.ended.wait(3)

    after = {(s.name, *sorted(s.labels.items())) for s in service.samples()}
    assert {name for name, *_ in after ^ before} == set()


def test_every_metric_is_in_the_table_of_the_readme(service: RunningService) -> None:
    rows = [line.split("|")[1:4] for line in README.splitlines() if line.startswith("| `speech_")]
    written = {}
    for names, labels, words in rows:
        assert words.strip()
        for name in NAME.findall(names):
            written[name] = set(NAME.findall(labels))

    exposed: dict[str, set[str]] = {}
    for sample in service.samples():
        name = re.sub("_(bucket|count|sum)$", "", sample.name)
        if name.startswith("speech_"):
            exposed.setdefault(name, set()).update(sample.labels.keys() - {"le"})
    assert written == exposed
