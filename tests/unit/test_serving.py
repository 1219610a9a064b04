from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fakes.pb_utils import FakePbUtils, FakeRequest, FakeSender
from speech_backend.serving import OUTCOMES, Codec, InvalidInputError, Outcomes, Sender, serve
from speech_backend.stages import StageError
from speech_wire import INVALID_INPUT, PcmChunk, SynthesisRequest, TensorSpec

if TYPE_CHECKING:
    from collections.abc import Generator

TENSORS = SynthesisRequest("Hello.", voice="heart", seed=7).to_tensors()


@dataclass
class FakeModel:
    """Yields three chunks of two samples, or raises `error` after `error_after` of them."""

    error: Exception | None = None
    error_after: int = 0
    requests: list[SynthesisRequest] = field(default_factory=list)
    closed: int = 0

    def synthesize(self, request: SynthesisRequest) -> Generator[PcmChunk, None, None]:
        self.requests.append(request)
        try:
            for number in range(3):
                if self.error is not None and number == self.error_after:
                    raise self.error
                yield PcmChunk(np.full(2, number, np.float32), 24_000, 2 * number)
        finally:
            self.closed += 1


def answer(model: FakeModel, request: FakeRequest) -> str:
    return serve(FakePbUtils(), request, model.synthesize, threading.Event())


def test_a_finished_request_sends_every_chunk_and_one_final() -> None:
    model, request = FakeModel(), FakeRequest(TENSORS)

    outcome = answer(model, request)

    sent = [PcmChunk.from_tensors(chunk) for chunk in request.sender.chunks]
    assert outcome == "finished"
    assert [chunk.samples.tolist() for chunk in sent] == [[0, 0], [1, 1], [2, 2]]
    assert [chunk.sample_offset for chunk in sent] == [0, 2, 4]
    assert (request.sender.errors, request.sender.finals, model.closed) == ([], 1, 1)


def test_the_model_gets_the_request_that_the_tensors_describe() -> None:
    model = FakeModel()

    answer(model, FakeRequest(TENSORS))

    (received,) = model.requests
    assert (received.target_text, received.voice, received.seed) == ("Hello.", "heart", 7)


def test_an_invalid_input_is_the_callers_fault_and_says_why() -> None:
    model, request = FakeModel(InvalidInputError("voice 'bob' is not here")), FakeRequest(TENSORS)

    outcome = answer(model, request)

    assert outcome == "invalid"
    assert request.sender.errors == [f"{INVALID_INPUT}voice 'bob' is not here"]
    assert (request.sender.chunks, request.sender.finals, model.closed) == ([], 1, 1)


@pytest.mark.parametrize(
    "tensors",
    [{}, {"target_text": np.array([b"\xff"], dtype=object)}],
    ids=["missing text", "invalid UTF-8"],
)
def test_a_broken_contract_is_no_callers_fault_and_never_reaches_the_model(
    tensors: dict[str, Any],
) -> None:
    model, request = FakeModel(), FakeRequest(tensors)

    outcome = answer(model, request)

    (error,) = request.sender.errors
    assert outcome == "failed"
    assert INVALID_INPUT not in error
    assert "target_text" in error
    assert (request.sender.finals, model.requests) == (1, [])


@pytest.mark.parametrize("sent", [0, 2], ids=["before the first chunk", "in the middle"])
def test_a_failure_sends_one_error_without_a_traceback(sent: int) -> None:
    model = FakeModel(ZeroDivisionError("no samples"), error_after=sent)
    request = FakeRequest(TENSORS)

    outcome = answer(model, request)

    assert outcome == "failed"
    assert request.sender.errors == ["the model failed: ZeroDivisionError: no samples"]
    assert (len(request.sender.chunks), request.sender.finals, model.closed) == (sent, 1, 1)


def test_the_traceback_of_a_failure_is_logged_with_the_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answer(FakeModel(ZeroDivisionError("no samples")), FakeRequest(TENSORS))

    (record,) = caplog.records
    assert record.getMessage() == "request req-1 failed: no samples"
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_a_stage_that_fails_is_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    answer(FakeModel(StageError("model 'llm' failed: out of memory")), FakeRequest(TENSORS))

    (record,) = caplog.records
    assert record.getMessage() == "request req-1 failed: model 'llm' failed: out of memory"
    assert record.exc_info is None


def test_a_request_cancelled_while_it_waited_never_reaches_the_model() -> None:
    model, request = FakeModel(), FakeRequest(TENSORS, FakeSender(cancel_after=0))

    outcome = answer(model, request)

    assert outcome == "cancelled"
    assert model.requests == []
    assert (request.sender.responses, request.sender.finals) == ([], 1)


def test_a_request_cancelled_in_the_middle_stops_and_closes_the_model() -> None:
    model, request = FakeModel(), FakeRequest(TENSORS, FakeSender(cancel_after=1))

    outcome = answer(model, request)

    assert outcome == "cancelled"
    assert (len(request.sender.chunks), request.sender.errors) == (1, [])
    assert (request.sender.finals, model.closed) == (1, 1)


def test_the_server_is_asked_before_each_chunk() -> None:
    request = FakeRequest(TENSORS)

    answer(FakeModel(), request)

    assert request.sender.asked == 1 + len(request.sender.chunks)


def test_the_server_is_never_asked_after_the_end() -> None:
    fake = FakeSender()
    sender = Sender(fake, threading.Event())
    sender.send(flags=1)

    assert sender.is_cancelled()
    assert fake.asked == 0


@dataclass
class Number:
    value: int

    def to_tensors(self) -> dict[str, Any]:
        return {"twice": np.array([self.value])}


def test_another_models_tensors_are_read_and_written_by_its_codec() -> None:
    codec = Codec((TensorSpec("number", "INT32", (1,)),), lambda tensors: tensors["number"].item())
    request = FakeRequest({"number": np.array([21], np.int32), "unknown": np.zeros(1)})

    def double(number: int) -> Generator[Number, None, None]:
        yield Number(2 * number)

    outcome = serve(FakePbUtils(), request, double, threading.Event(), codec)

    assert outcome == "finished"
    assert request.sender.chunks == [{"twice": np.array([42])}]


def test_outcomes_start_at_zero_and_are_counted_one_by_one() -> None:
    outcomes = Outcomes(FakePbUtils(), "hibari")
    before = [metric.value for metric in outcomes._family.metrics]

    for outcome in ("finished", "finished", "invalid"):
        outcomes.count(outcome)

    family = outcomes._family
    assert before == [0, 0, 0, 0]
    assert (family.name, family.kind) == ("speech_model_requests_total", "counter")
    assert {m.labels["outcome"]: m.value for m in family.metrics} == {
        "finished": 2,
        "cancelled": 0,
        "invalid": 1,
        "failed": 0,
    }
    assert all(metric.labels["model"] == "hibari" for metric in family.metrics)


def test_every_ending_has_its_counter() -> None:
    endings = {
        answer(FakeModel(), FakeRequest(TENSORS)),
        answer(FakeModel(InvalidInputError("no")), FakeRequest(TENSORS)),
        answer(FakeModel(ZeroDivisionError()), FakeRequest(TENSORS)),
        answer(FakeModel(), FakeRequest(TENSORS, FakeSender(cancel_after=0))),
    }

    assert endings == set(OUTCOMES)
