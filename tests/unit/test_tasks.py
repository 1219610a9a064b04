from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fakes.clock import Clock
from fakes.pb_utils import FakeRequest, FakeSender, KeepingPbUtils
from speech_backend.loop import LoopThread
from speech_backend.serving import Codec, InvalidInputError
from speech_backend.tasks import ASK_SECONDS, RequestTasks
from speech_wire import CANCEL_PARAMETER, INVALID_INPUT, NewIds, TensorSpec

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

WAIT_SECONDS = 10
CODEC = Codec((TensorSpec("count", "INT32", (1,)),), lambda tensors: tensors, stop_input="stop")
CANCEL = json.dumps({CANCEL_PARAMETER: True})


class Model:
    """Yields as many ids as asked for; holds each request after `hold_after` of them."""

    def __init__(self) -> None:
        self.hold_after: int | None = None
        self.error: Exception | None = None
        self.held = threading.Event()
        self.closed = 0
        self.closing_steps = 0

    async def generate(self, request: dict[str, Any]) -> AsyncGenerator[NewIds, None]:
        try:
            for number in range(int(request["count"][0])):
                if number == self.hold_after:
                    self.held.set()
                    await asyncio.Event().wait()
                yield NewIds(np.array([number], np.int32))
            if self.error is not None:
                raise self.error
        finally:
            for _ in range(self.closing_steps):
                await asyncio.sleep(0)
            self.closed += 1


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture
def pb_utils() -> KeepingPbUtils:
    return KeepingPbUtils()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tasks(model: Model, loop: LoopThread, pb_utils: KeepingPbUtils, clock: Clock) -> RequestTasks:
    return RequestTasks(pb_utils, "llm", model.generate, CODEC, loop.loop, clock)


def request(count: int, name: str = "1", **more: Any) -> FakeRequest:
    return FakeRequest({"count": np.array([count], np.int32), **more}, id=name)


def ids(answered: FakeRequest) -> list[int]:
    return [chunk["output_ids"].item() for chunk in answered.sender.chunks]


def test_each_request_gets_its_own_ids_and_one_final(
    tasks: RequestTasks, pb_utils: KeepingPbUtils
) -> None:
    requests = [request(count, str(count)) for count in range(1, 9)]

    for one in requests:
        tasks.accept(one)
    tasks.close()

    assert [ids(one) for one in requests] == [list(range(count)) for count in range(1, 9)]
    assert [one.sender.finals for one in requests] == [1] * 8
    assert pb_utils.outcomes() == {"finished": 8}


@pytest.mark.parametrize("by", ["stop", "parameter"])
def test_a_cancel_ends_the_request_where_it_waits(
    tasks: RequestTasks, model: Model, pb_utils: KeepingPbUtils, by: str
) -> None:
    model.hold_after = 2
    held = request(5)
    cancel = request(1, stop=np.array([[True]])) if by == "stop" else request(1)
    cancel.words = CANCEL if by == "parameter" else ""

    tasks.accept(held)
    assert model.held.wait(WAIT_SECONDS)
    tasks.accept(cancel)
    tasks.close()

    assert (ids(held), held.sender.errors, held.sender.finals) == ([0, 1], [], 1)
    assert (ids(cancel), cancel.sender.finals) == ([], 1)
    assert (model.closed, pb_utils.outcomes()) == (1, {"cancelled": 1})


def test_a_cancel_that_comes_at_once_still_brings_a_final(
    tasks: RequestTasks, pb_utils: KeepingPbUtils
) -> None:
    """Before the loop has even begun the request."""
    pairs = [(request(3, str(n)), request(1, str(n))) for n in range(50)]

    for first, cancel in pairs:
        cancel.words = CANCEL
        tasks.accept(first)
        tasks.accept(cancel)
    tasks.close()

    assert {first.sender.finals for first, _ in pairs} == {1}
    assert {cancel.sender.finals for _, cancel in pairs} == {1}
    assert sum(pb_utils.outcomes().values()) == 50


def test_a_cancel_leaves_others_alone(tasks: RequestTasks) -> None:
    cancel, other = request(1, "2"), request(4, "1")
    cancel.words = CANCEL

    tasks.accept(other)
    tasks.accept(cancel)
    tasks.close()

    assert (ids(other), cancel.sender.finals) == ([0, 1, 2, 3], 1)


class Ticking(FakeSender):
    """A second passes with each response."""

    def __init__(self, clock: Clock, cancel_after: int) -> None:
        super().__init__(cancel_after)
        self._clock = clock

    def send(self, *response: Any, **flags: Any) -> None:
        super().send(*response, **flags)
        self._clock.now += 1.0


def test_the_server_is_not_asked_for_each_message(tasks: RequestTasks) -> None:
    many = request(100)
    tasks.accept(many)
    tasks.close()

    assert (len(ids(many)), many.sender.asked) == (100, 1)


def test_a_client_that_has_gone_ends_the_model(
    tasks: RequestTasks, model: Model, pb_utils: KeepingPbUtils, clock: Clock
) -> None:
    gone, never_there = request(5), request(5, "2")
    gone.sender = Ticking(clock, cancel_after=2)
    never_there.sender = FakeSender(cancel_after=0)

    tasks.accept(gone)
    tasks.accept(never_there)
    tasks.close()

    assert (ids(gone), gone.sender.finals, model.closed) == ([0, 1], 1, 1)
    assert (ids(never_there), never_there.sender.finals) == ([], 1)
    assert pb_utils.outcomes() == {"cancelled": 2}


class Leaving(FakeSender):
    """Its client goes when a test says so."""

    has_gone = False

    def is_cancelled(self) -> bool:
        return super().is_cancelled() or self.has_gone


def held(tasks: RequestTasks, model: Model) -> tuple[FakeRequest, Leaving]:
    """Return a request that the model has not answered yet, and its sender."""
    model.hold_after = 0
    sender = Leaving()
    asked = request(5)
    asked.sender = sender
    tasks.accept(asked)
    assert model.held.wait(WAIT_SECONDS)
    return asked, sender


def test_a_client_that_has_gone_is_noticed_while_nothing_is_answered(
    tasks: RequestTasks, model: Model, pb_utils: KeepingPbUtils, clock: Clock
) -> None:
    asked, sender = held(tasks, model)

    sender.has_gone = True
    clock.now += ASK_SECONDS
    assert sender.has_ended.wait(WAIT_SECONDS)
    tasks.close()

    assert (ids(asked), sender.finals, model.closed) == ([], 1, 1)
    assert pb_utils.outcomes() == {"cancelled": 1}


def test_the_server_is_asked_once_a_second_while_nothing_is_answered(
    tasks: RequestTasks, model: Model, loop: LoopThread, clock: Clock
) -> None:
    _, sender = held(tasks, model)
    asked = []

    for _ in range(9):
        loop.run(tasks.look())
        asked.append(sender.asked)
        clock.now += ASK_SECONDS / 4
    sender.has_gone = True
    clock.now += ASK_SECONDS
    tasks.close()

    assert asked == [1, 1, 1, 1, 2, 2, 2, 2, 3]


def test_the_model_is_stopped_before_its_end_is_said(
    tasks: RequestTasks, model: Model, clock: Clock
) -> None:
    class Sender(Ticking):
        def send(self, *response: Any, **flags: Any) -> None:
            super().send(*response, **flags)
            if flags:
                closed.append(model.closed)

    closed: list[int] = []
    model.closing_steps = 1000
    gone = request(5)
    gone.sender = Sender(clock, cancel_after=2)

    tasks.accept(gone)
    tasks.close()

    assert closed == [1]


@pytest.mark.parametrize(
    ("error", "words", "outcome"),
    [
        (InvalidInputError("too long"), f"{INVALID_INPUT}too long", "invalid"),
        (RuntimeError("no"), "the model failed: RuntimeError: no", "failed"),
    ],
)
def test_an_error_is_sent_once_and_belongs_to_one_request(
    tasks: RequestTasks,
    model: Model,
    pb_utils: KeepingPbUtils,
    error: Exception,
    words: str,
    outcome: str,
) -> None:
    model.error = error
    failed = request(2)

    tasks.accept(failed)
    tasks.close()

    assert (ids(failed), failed.sender.errors, failed.sender.finals) == ([0, 1], [words], 1)
    assert pb_utils.outcomes() == {outcome: 1}


def test_a_request_that_cannot_be_read_fails_alone(
    tasks: RequestTasks, pb_utils: KeepingPbUtils
) -> None:
    wrong = FakeRequest({}, id="9")
    right = request(1)

    tasks.accept(wrong)
    tasks.accept(right)
    tasks.close()

    assert wrong.sender.errors == ["the model failed: KeyError: 'count'"]
    assert (wrong.sender.finals, ids(right)) == (1, [0])
    assert pb_utils.outcomes() == {"failed": 1, "finished": 1}
