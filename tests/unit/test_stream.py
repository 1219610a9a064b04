"""One call: what is not taken waits in gRPC, and so at the model."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import grpc
import grpc.aio
import pytest
from tritonclient.grpc import service_pb2

from gateway.backend.stream import READ_AHEAD, StreamCaller, StreamLimits
from gateway.speech.deadline import Deadline

pytestmark = pytest.mark.anyio


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


async def test_one_response_is_read_at_first_and_then_a_few_ahead() -> None:
    call = FakeCall(answers=20)
    caller = StreamCaller(FakeStub(call), StreamLimits(10.0, 10.0))
    request = service_pb2.ModelInferRequest()

    async with aclosing(caller.stream(request, None, Deadline.after(10.0))) as responses:
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
