"""One ModelStreamInfer call: a request in, data responses out, nothing left behind.

tritonclient's own stream drops the flag that asks for FINAL and the ids of errors, so this is
the raw stub. That the RPC ends with OK proves nothing; only FINAL does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc.aio

from gateway.backend.classify import classify
from gateway.errors import BackendUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextlib import AbstractAsyncContextManager

    from tritonclient.grpc import service_pb2

    from gateway.speech.deadline import Deadline


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How long Triton may be silent before its first response, and between two."""

    first_response_seconds: float
    gap_seconds: float


async def stream_infer(
    stub: Any, request: service_pb2.ModelInferRequest, limits: StreamLimits, deadline: Deadline
) -> AsyncGenerator[service_pb2.ModelInferResponse, None]:
    """Yield the data responses of `request`; return after FINAL.

    Raises SpeechError for every other ending. The call is cancelled in every ending: the server
    would otherwise go on making audio that nobody hears.
    """
    call = stub.ModelStreamInfer(timeout=deadline.remaining_seconds())
    patience = limits.first_response_seconds
    try:
        async with _patience(patience, deadline):
            await call.write(request)
            await call.done_writing()
        while True:
            async with _patience(patience, deadline):
                message = await call.read()
            if message is grpc.aio.EOF:
                raise await _broken_off(call)
            if message.error_message:
                raise classify(None, message.error_message)
            response = message.infer_response
            if response.outputs:
                yield response
                patience = limits.gap_seconds
            if _is_final(response):
                return
    except grpc.aio.AioRpcError as error:
        raise classify(error.code(), error.details() or "") from error
    finally:
        call.cancel()


def _is_final(response: service_pb2.ModelInferResponse) -> bool:
    parameters = response.parameters
    return "triton_final_response" in parameters and bool(
        parameters["triton_final_response"].bool_param
    )


async def _broken_off(call: Any) -> Exception:
    code = await call.code()
    if code is not grpc.StatusCode.OK:
        return classify(code, await call.details() or "")
    return BackendUnavailableError(
        "Triton ended the stream before the speech was complete", detail="EOF without FINAL"
    )


def _patience(seconds: float, deadline: Deadline) -> AbstractAsyncContextManager[None]:
    return deadline.limit(f"Triton was silent for {seconds:g} s", seconds)
