"""A Triton that costs as little as Python allows: what it says was made before it was asked.

`python -m bench.hop.fast_triton --port 8001` serves until it is killed.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import numpy as np
import uvloop
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor

from fakes.script import tone
from fakes.servicer import Servicer
from speech_wire import CANCEL_PARAMETER, PcmChunk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SERVICE = "inference.GRPCInferenceService"
CANCEL = CANCEL_PARAMETER.encode()


class FastTriton:
    """Answers every ModelStreamInfer with the same chunks, each `pause` seconds after the last."""

    def __init__(self, chunks: int, samples: int, pause_seconds: float) -> None:
        self._pause_seconds = pause_seconds
        self._answers = [
            _answer(tone(samples, start=index * samples), index * samples, index == chunks - 1)
            for index in range(chunks)
        ]
        self._final = _final()

    async def stream(self, requests: AsyncIterator[bytes], context: Any) -> None:
        """Answer the first request; another is the cancel of the first."""
        answering: asyncio.Task[None] | None = None
        async for request in requests:
            if CANCEL in request and answering is not None:
                answering.cancel()
                await asyncio.wait({answering})
                await context.write(self._final)
                await context.write(self._final)
            else:
                answering = asyncio.ensure_future(self._answer(context))
        if answering is not None:
            await asyncio.wait({answering})

    async def _answer(self, context: Any) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        for index, answer in enumerate(self._answers):
            early = started + index * self._pause_seconds - loop.time()
            if early > 0:
                await asyncio.sleep(early)
            await context.write(answer)
        await context.write(self._final)


def _answer(samples: Any, offset: int, is_last: bool) -> bytes:  # noqa: FBT001
    chunk = PcmChunk(samples, 24_000, offset, "stop" if is_last else None)
    message = service_pb2.ModelStreamInferResponse()
    response = message.infer_response
    response.model_name, response.model_version = "hibari", "1"
    response.parameters["triton_final_response"].bool_param = False
    for name, array in chunk.to_tensors().items():
        dtype = np_to_triton_dtype(array.dtype)
        response.outputs.add(name=name, datatype=dtype, shape=array.shape)
        is_bytes = array.dtype == np.object_
        raw = serialize_byte_tensor(array).item() if is_bytes else array.tobytes()
        response.raw_output_contents.append(raw)
    return bytes(message.SerializeToString())


def _final() -> bytes:
    message = service_pb2.ModelStreamInferResponse()
    message.infer_response.parameters["triton_final_response"].bool_param = True
    return bytes(message.SerializeToString())


async def serve(port: int, model: FastTriton) -> None:
    """Serve until cancelled; all but the streams is as the tests' fake says it."""
    servicer = Servicer(("hibari",))
    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, server)
    # It takes the other's place. Without a (de)serialiser, what goes in and out are bytes.
    streams = {"ModelStreamInfer": grpc.stream_stream_rpc_method_handler(model.stream)}
    server.add_registered_method_handlers(SERVICE, streams)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--chunks", type=int, default=10)
    parser.add_argument("--samples", type=int, default=2400, help="samples of each chunk, 24 kHz")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two chunks")
    options = parser.parse_args()
    uvloop.run(serve(options.port, FastTriton(options.chunks, options.samples, options.pause)))


if __name__ == "__main__":
    main()
