"""The watch for clients that have gone, when the server cannot be asked after one of them."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

from fakes.clock import Clock
from fakes.pb_utils import FakeRequest, FakeSender, KeepingPbUtils
from speech_backend.loop import LoopThread
from speech_backend.serving import Codec
from speech_backend.tasks import ASK_SECONDS, RequestTasks
from speech_wire import CANCEL_PARAMETER, NewIds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import pytest

WAIT_SECONDS = 10


class Watched(FakeSender):
    """Tells when it has been asked."""

    has_gone = False

    def __init__(self) -> None:
        super().__init__()
        self.has_been_asked = threading.Event()

    def is_cancelled(self) -> bool:
        super().is_cancelled()
        self.has_been_asked.set()
        return self.has_gone


class Sick(Watched):
    """Can be asked once, as each request begins with it."""

    def is_cancelled(self) -> bool:
        super().is_cancelled()
        if self.asked > 1:
            raise RuntimeError("Failed to increase the shared memory pool size")
        return False


async def wait_for_ever(_: Any) -> AsyncGenerator[NewIds, None]:
    await asyncio.Event().wait()
    yield


def test_one_that_cannot_be_asked_after_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    loop, clock, pb_utils = LoopThread(), Clock(), KeepingPbUtils()
    tasks = RequestTasks(pb_utils, "llm", wait_for_ever, Codec((), dict), loop.loop, clock)
    sick, leaving = Sick(), Watched()
    for name, sender in (("1", sick), ("2", leaving)):
        tasks.accept(FakeRequest({}, sender, id=name))
        assert sender.has_been_asked.wait(WAIT_SECONDS)

    leaving.has_gone = True
    clock.now += ASK_SECONDS
    has_left = leaving.has_ended.wait(WAIT_SECONDS)
    for name in ("1", "2"):
        tasks.accept(FakeRequest({}, id=name, words=json.dumps({CANCEL_PARAMETER: True})))
    tasks.close()
    loop.close()

    assert has_left
    (record,) = caplog.records
    assert record.getMessage() == (
        "cannot ask whether a client is there: "
        "RuntimeError('Failed to increase the shared memory pool size')"
    )
    assert pb_utils.outcomes() == {"cancelled": 2}
