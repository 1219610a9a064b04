"""One call: what is not taken waits in gRPC, and so at the model."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
from tritonclient.grpc import service_pb2

from fakes.clock import in_virtual_time
from gateway.backend.stream import READ_AHEAD, WIND_DOWN_SECONDS, StreamCaller, StreamLimits
from gateway.errors import BackendTimeoutError
from gateway.speech.deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable


class FakeCall:
    """An RPC whose answers are always there already."""

    def __init__(self, answers: int) -> None:
        self.read_count = 0
        self._answers = answers

    async def write(self, _: Any) -> None: ...

    async def done_writing(self) -> None: ...

    async def read(self) -> Any:
        self.read_count += 1
        if self.read_count > self._answers:
            return grpc.aio.EOF
        message = service_pb2.ModelStreamInferResponse()
        is_final = self.read_count == self._answers
        message.infer_response.parameters["triton_final_response"].bool_param = is_final
        message.infer_response.outputs.add(name="waveform")
        return message

    def cancel(self) -> None: ...

    async def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.OK


class FakeStub:
    def __init__(self, call: FakeCall) -> None:
        self._call = call

    def ModelStreamInfer(self, **_: Any) -> FakeCall:  # noqa: N802  gRPC's name
        return self._call


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def settled() -> None:
    """Let every task run as far as it can."""
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.mark.anyio
async def test_one_response_is_read_at_first_and_then_a_few_ahead() -> None:
    call = FakeCall(answers=20)
    caller = StreamCaller(FakeStub(call), StreamLimits(10.0, 10.0))
    request = service_pb2.ModelInferRequest()

    async with aclosing(caller.stream(request, lambda: None, Deadline.after(10.0))) as responses:
        await anext(responses)
        await settled()
        while_the_first_is_sent = call.read_count
        await anext(responses)
        await settled()
        while_the_second_is_sent = call.read_count
        rest = [response async for response in responses]
    await caller.aclose()

    assert while_the_first_is_sent == 1
    assert while_the_second_is_sent == 1 + READ_AHEAD
    assert len(rest) == 18


class SilentCall(FakeCall):
    """An RPC that says nothing more after its answers, until it is cancelled."""

    def __init__(self, answers: int, *, is_whole: bool) -> None:
        super().__init__(answers + (0 if is_whole else 1))
        self._said = answers
        self._cancelled = asyncio.Event()

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    async def read(self) -> Any:
        if self.read_count == self._said:
            await self._cancelled.wait()
            return grpc.aio.EOF
        return await super().read()

    def cancel(self) -> None:
        self._cancelled.set()


@pytest.mark.parametrize(
    ("answers", "deadline_seconds", "silent_at_seconds", "told"),
    [
        (0, 600.0, 30.0, "Triton was silent for 30 s"),
        (1, 600.0, 10.0, "Triton was silent for 10 s"),
        (3, 600.0, 10.0, "Triton was silent for 10 s"),
        (1, 4.0, 4.0, "the request's deadline has passed"),
    ],
)
def test_silence_ends_a_call_when_its_time_has_come(
    answers: int, deadline_seconds: float, silent_at_seconds: float, told: str
) -> None:
    async def listen(clock: Callable[[], float]) -> tuple[str, float]:
        call = SilentCall(answers, is_whole=False)
        caller = StreamCaller(FakeStub(call), StreamLimits(30.0, 10.0))
        deadline = Deadline.after(deadline_seconds, clock)
        request = service_pb2.ModelInferRequest()
        with pytest.raises(BackendTimeoutError) as raised:
            async for _ in caller.stream(request, lambda: None, deadline):
                pass
        return raised.value.message, clock()

    assert in_virtual_time(listen) == (told, pytest.approx(silent_at_seconds))


def test_an_answered_call_that_the_server_does_not_end_is_cut() -> None:
    async def listen(clock: Callable[[], float]) -> tuple[bool, float]:
        call = SilentCall(2, is_whole=True)
        caller = StreamCaller(FakeStub(call), StreamLimits(30.0, 10.0))
        request = service_pb2.ModelInferRequest()
        async for _ in caller.stream(request, lambda: None, Deadline.after(600.0, clock)):
            pass
        await caller.aclose()
        return call.is_cancelled, clock()

    assert in_virtual_time(listen) == (True, pytest.approx(WIND_DOWN_SECONDS))
