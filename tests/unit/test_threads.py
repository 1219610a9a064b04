from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fakes.pb_utils import FakePbUtils, FakeRequest
from speech_backend.serving import Codec
from speech_backend.threads import RequestThreads
from speech_wire import CANCEL_PARAMETER, INPUTS, PcmChunk, SynthesisRequest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

WAIT_SECONDS = 10
TENSORS = SynthesisRequest("Hello.").to_tensors()
CANCEL = json.dumps({CANCEL_PARAMETER: True})


class HeldModel:
    """Speaks one chunk, then waits until a test lets it go on."""

    def __init__(self) -> None:
        self.has_spoken = threading.Event()
        self.may_go_on = threading.Event()

    def synthesize(self, _: SynthesisRequest) -> Generator[PcmChunk, None, None]:
        yield PcmChunk(np.zeros(2, np.float32), 24_000, 0)
        self.has_spoken.set()
        assert self.may_go_on.wait(WAIT_SECONDS)
        yield PcmChunk(np.zeros(2, np.float32), 24_000, 2)


@pytest.fixture
def model() -> HeldModel:
    return HeldModel()


@pytest.fixture
def threads(model: HeldModel) -> Iterator[RequestThreads]:
    running = RequestThreads(FakePbUtils(), "held", model.synthesize, threads=2)
    yield running
    model.may_go_on.set()
    running.close()


def test_execute_is_not_held_up_and_the_answer_comes_whole(
    threads: RequestThreads, model: HeldModel
) -> None:
    request = FakeRequest(TENSORS)

    threads.accept(request)
    finals_at_once = request.sender.finals
    model.may_go_on.set()
    threads.close()

    assert finals_at_once == 0
    assert (len(request.sender.chunks), request.sender.finals) == (2, 1)


def test_a_cancel_stops_the_request_with_its_id_and_both_end_with_final(
    threads: RequestThreads, model: HeldModel
) -> None:
    request, cancel = FakeRequest(TENSORS, id="a"), FakeRequest(TENSORS, id="a", words=CANCEL)

    threads.accept(request)
    assert model.has_spoken.wait(WAIT_SECONDS)
    threads.accept(cancel)
    model.may_go_on.set()
    threads.close()

    assert (len(request.sender.chunks), request.sender.finals) == (1, 1)
    assert (len(cancel.sender.chunks), cancel.sender.finals) == (0, 1)


def test_a_cancelled_request_that_still_waits_ends_at_once(threads: RequestThreads) -> None:
    busy = [FakeRequest(TENSORS, id=name) for name in "ab"]
    waiting, cancel = FakeRequest(TENSORS, id="c"), FakeRequest(TENSORS, id="c", words=CANCEL)

    for request in (*busy, waiting, cancel):
        threads.accept(request)

    assert (waiting.sender.responses, waiting.sender.finals) == ([], 1)
    assert cancel.sender.finals == 1
    assert [request.sender.finals for request in busy] == [0, 0]


@pytest.mark.parametrize(("stop", "chunks"), [(True, 1), (False, 2)])
def test_a_stop_input_cancels_as_with_tensorrt_llm(
    model: HeldModel, *, stop: bool, chunks: int
) -> None:
    codec = Codec(INPUTS, SynthesisRequest.from_tensors, stop_input="stop")
    threads = RequestThreads(FakePbUtils(), "held", model.synthesize, threads=2, codec=codec)
    request = FakeRequest(TENSORS, id="a")
    other = FakeRequest({**TENSORS, "stop": np.array([[stop]])}, id="a" if stop else "b")

    threads.accept(request)
    assert model.has_spoken.wait(WAIT_SECONDS)
    threads.accept(other)
    model.may_go_on.set()
    threads.close()

    assert (len(request.sender.chunks), request.sender.finals) == (chunks, 1)
    assert (len(other.sender.chunks), other.sender.finals) == (0 if stop else 2, 1)


def test_a_cancel_leaves_other_requests_alone(threads: RequestThreads, model: HeldModel) -> None:
    request, cancel = FakeRequest(TENSORS, id="a"), FakeRequest(TENSORS, id="b", words=CANCEL)

    threads.accept(request)
    assert model.has_spoken.wait(WAIT_SECONDS)
    threads.accept(cancel)
    model.may_go_on.set()
    threads.close()

    assert len(request.sender.chunks) == 2
    assert cancel.sender.finals == 1


def test_a_request_that_waits_in_line_can_be_cancelled(model: HeldModel) -> None:
    """With one thread the second request has not begun when its cancel comes."""
    threads = RequestThreads(FakePbUtils(), "held", model.synthesize, threads=1)
    first, second = FakeRequest(TENSORS, id="1"), FakeRequest(TENSORS, id="2")

    threads.accept(first)
    threads.accept(second)
    threads.accept(FakeRequest(TENSORS, id="2", words=CANCEL))
    model.may_go_on.set()
    threads.close()

    assert len(first.sender.chunks) == 2
    assert (len(second.sender.chunks), second.sender.finals) == (0, 1)
