"""Concurrency 1: the first audio byte over HTTP, against the first chunk over raw gRPC."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import grpc.aio
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import serialize_byte_tensor

from bench.hop.connection import TEXT, Connection
from bench.hop.processes import SERVED, gateway, triton
from speech_wire import SynthesisRequest

if TYPE_CHECKING:
    from collections.abc import Sequence


async def report(pairs: int) -> None:
    """Measure pairs and print what the gateway adds; aims: p50 1.0 ms, p99 5 ms."""
    with triton() as triton_port, gateway(triton_port, SERVED) as (_, port):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{triton_port}") as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            connection = await Connection.open(port)
            for _ in range(pairs // 4):
                await first_chunk_seconds(stub)
                await connection.ask()
            raw, http = [], []
            for _ in range(pairs):
                raw.append(await first_chunk_seconds(stub) * 1e3)
                http.append((await connection.ask()).first_audio_seconds * 1e3)
            connection.close()
    added = [b - a for a, b in zip(raw, http, strict=True)]
    print(f"first audio, concurrency 1, {pairs} pairs, milliseconds (p50 / p99):")
    for name, values in (("raw gRPC", raw), ("HTTP", http), ("added by the gateway", added)):
        print(f"  {name:24} {percentiles(values)}")
    print(f"  HTTP p50 : raw gRPC p50  {statistics.median(http) / statistics.median(raw):.2f}")


async def first_chunk_seconds(stub: Any) -> float:
    """Return the seconds to the first chunk over a new ModelStreamInfer call."""
    started = time.perf_counter()
    call = stub.ModelStreamInfer()
    await call.write(infer_request())
    await call.read()
    seconds = time.perf_counter() - started
    await call.done_writing()
    while await call.read() is not grpc.aio.EOF:
        pass
    return seconds


def infer_request() -> service_pb2.ModelInferRequest:
    """Return the request that the gateway makes of the clients' one."""
    request = service_pb2.ModelInferRequest(model_name="hibari")
    request.parameters["triton_enable_empty_final_response"].bool_param = True
    for name, array in SynthesisRequest(TEXT, voice="heart").to_tensors().items():
        request.inputs.add(name=name, datatype="BYTES", shape=array.shape)
        request.raw_input_contents.append(serialize_byte_tensor(array).item())
    return request


def percentiles(values: Sequence[float]) -> str:
    """Return p50 / p99."""
    cuts = statistics.quantiles(values, n=100)
    return f"{cuts[49]:.2f} / {cuts[98]:.2f}"
