"""Triton's requests to a scripted engine, through all that stands between."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fakes.pb_utils import FakeRequest, FakeSender, KeepingPbUtils
from fakes.vllm import AsyncLLM
from fakes.vllm_model import PARAMETERS, expected, request
from speech_backend.generation import generation_requests
from speech_wire import INVALID_INPUT

if TYPE_CHECKING:
    from speech_backend.generation import Requests

WAIT_SECONDS = 10


class Watched(FakeSender):
    """Tells when a response has come."""

    def __init__(self) -> None:
        super().__init__()
        self.has_answered = threading.Event()

    def send(self, *response: Any, **flags: Any) -> None:
        super().send(*response, **flags)
        self.has_answered.set()


@pytest.fixture
def pb_utils() -> KeepingPbUtils:
    return KeepingPbUtils()


@pytest.fixture
def requests(pb_utils: KeepingPbUtils) -> Requests:
    """Start them; each test waits for their end, which closes them."""
    return generation_requests(pb_utils, "llm", {**PARAMETERS, "engine": "vllm"})


def asked(last: int, count: int = 20, **more: Any) -> FakeRequest:
    """Return a request with tensorrt_llm's tensors; its id is its last input id."""
    tensors = {
        "input_ids": np.array([[1, 2, last]], np.int32),
        "input_lengths": np.array([[3]], np.int32),
        "request_output_len": np.array([[count]], np.int32),
        "streaming": np.array([[True]]),
        **more,
    }
    return FakeRequest(tensors, Watched(), id=str(last))


def ids(answered: FakeRequest) -> list[int]:
    arrays = [chunk["output_ids"].ravel() for chunk in answered.sender.chunks]
    return np.concatenate(arrays).tolist() if arrays else []


def test_many_requests_are_answered_in_tensorrt_llms_tensors(
    requests: Requests, pb_utils: KeepingPbUtils
) -> None:
    sent = [asked(last, last) for last in range(1, 30)]

    for one in sent:
        requests.accept(one)
    requests.close()

    assert [ids(one) for one in sent] == [expected(request(n, n)) for n in range(1, 30)]
    assert {one.sender.finals for one in sent} == {1}
    assert pb_utils.outcomes() == {"finished": 29}


def test_a_stop_ends_the_request_and_no_other(requests: Requests, pb_utils: KeepingPbUtils) -> None:
    long, other = asked(1, 390), asked(2, 200)
    AsyncLLM.started[0].holds_at = 5
    requests.accept(long)
    requests.accept(other)
    assert long.sender.has_answered.wait(WAIT_SECONDS)

    requests.accept(asked(1, stop=np.array([[True]])))
    requests.close()

    assert (long.sender.finals, long.sender.errors) == (1, [])
    assert len(ids(long)) < 390
    assert ids(other) == expected(request(2, 200))
    assert pb_utils.outcomes() == {"cancelled": 1, "finished": 1}
    assert len(AsyncLLM.started[0].aborted) == 1


def test_a_request_that_can_never_fit_is_the_callers_fault(
    requests: Requests, pb_utils: KeepingPbUtils
) -> None:
    wrong, right = asked(3, 398), asked(4)

    requests.accept(wrong)
    requests.accept(right)
    requests.close()

    (error,) = wrong.sender.errors
    assert error.startswith(f"{INVALID_INPUT}request_output_len is 398")
    assert ids(right) == expected(request(4))
    assert pb_utils.outcomes() == {"invalid": 1, "finished": 1}


def test_allowed_ids_are_kept_to(requests: Requests) -> None:
    kept = asked(5, allowed_ids=np.array([[[100, 103], [7, 7]]], np.int32))

    requests.accept(kept)
    requests.close()

    assert set(ids(kept)) == {100, 101, 102, 103, 7}


def test_figures_are_published(requests: Requests, pb_utils: KeepingPbUtils) -> None:
    requests.close()

    (steps,) = pb_utils.families["speech_llm_steps_total"].metrics
    assert steps.labels == {"model": "llm"}
    assert steps.value > 0


def test_figures_that_could_not_be_published_are_published_later(
    requests: Requests, pb_utils: KeepingPbUtils, caplog: pytest.LogCaptureFixture
) -> None:
    (steps,) = pb_utils.families["speech_llm_steps_total"].metrics
    steps.errors.append(RuntimeError("Failed to increase the shared memory pool size"))
    steps.incremented.clear()

    requests.accept(asked(6))
    has_published = steps.incremented.wait(WAIT_SECONDS)
    requests.close()

    assert has_published
    assert "Failed to increase the shared memory pool size" in caplog.text


def test_the_engine_ends_with_its_model(requests: Requests) -> None:
    requests.close()

    assert AsyncLLM.started[0].is_shut


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(ValueError, match="engine is 'other', allowed are transformers, vllm"):
        generation_requests(None, "llm", {"engine": "other"})
