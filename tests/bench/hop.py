"""What the gateway adds to Triton: `make bench-hop`.

A fake Triton and the gateway run as processes of their own. At concurrency 1, requests go in
turn over the raw gRPC stub (to the first chunk) and over HTTP (to the first audio byte), so
that both see the same machine; then 16 clients share a gateway that is pinned to one core.
Nothing here is a test: figures are printed, never asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc.aio
import psutil
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import serialize_byte_tensor

from speech_wire import SynthesisRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

FAKE = Path(__file__).parents[1] / "fakes" / "triton.py"
MODEL = "hibari"
TEXT = "A sentence of an ordinary length for the measurement."
BODY = json.dumps({"model": MODEL, "voice": "heart", "input": TEXT, "response_format": "wav"})
HEADERS = {"content-type": "application/json"}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=400, help="pairs at concurrency 1")
    parser.add_argument("--load", type=int, default=4000, help="requests at concurrency 16")
    options = parser.parse_args()
    triton_port, http_port = _free_port(), _free_port()
    print(f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}, ", end="")
    print(f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}")
    fake = [sys.executable, str(FAKE), "--port", str(triton_port)]
    gateway = [sys.executable, "-I", "-m", "gateway", "serve", "--port", str(http_port)]
    gateway += ["--triton", f"127.0.0.1:{triton_port}"]
    with _process(fake, triton_port), _process(gateway, http_port) as served:
        _report_hop(triton_port, http_port, options.requests)
        _report_load(served, http_port, options.load)


def _report_hop(triton_port: int, http_port: int, pairs: int) -> None:
    with (
        closing(asyncio.new_event_loop()) as loop,
        closing(http.client.HTTPConnection("127.0.0.1", http_port)) as connection,
    ):
        stub = loop.run_until_complete(_open_stub(triton_port))
        measures: Sequence[Callable[[], float]] = (
            lambda: loop.run_until_complete(first_chunk_seconds(stub)),
            lambda: first_byte_seconds(connection),
        )
        for _ in range(pairs // 4):
            for measure in measures:
                measure()
        pairs_seconds = [[measure() for measure in measures] for _ in range(pairs)]
    raw, http_ = ([pair[side] * 1e3 for pair in pairs_seconds] for side in (0, 1))
    added = [pair[1] * 1e3 - pair[0] * 1e3 for pair in pairs_seconds]
    print(f"concurrency 1, {pairs} pairs, milliseconds (p50 / p90):")
    for name, values in (("first chunk, raw gRPC", raw), ("first audio byte, HTTP", http_)):
        print(f"  {name:24} {_percentiles(values)}")
    print(f"  {'added by the gateway':24} {_percentiles(added)}")
    print(f"  p50 HTTP - p50 gRPC      {statistics.median(http_) - statistics.median(raw):.2f}")


def _report_load(served: psutil.Process, port: int, requests: int) -> None:
    for thread in served.threads():
        os.sched_setaffinity(thread.id, {0})
    workers = 16

    def client(count: int) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            for _ in range(count):
                connection.request("POST", "/v1/audio/speech", BODY, HEADERS)
                response = connection.getresponse()
                if response.status != http.client.OK:
                    raise RuntimeError(response.read())
                response.read()

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(client, [10] * workers))
        cpu, started = sum(served.cpu_times()[:2]), time.perf_counter()
        list(pool.map(client, [requests // workers] * workers))
        seconds = time.perf_counter() - started
        cpu = sum(served.cpu_times()[:2]) - cpu
    done = requests // workers * workers
    print(f"concurrency {workers}, gateway pinned to one core, {done} requests of 20 chunks (4 s):")
    print(f"  {done / seconds:.0f} requests/s; gateway CPU {cpu / done * 1e3:.2f} ms a request,")
    print(f"  {cpu / seconds:.0%} of its core (the fake and the clients share the rest)")


async def _open_stub(port: int) -> Any:
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
    return service_pb2_grpc.GRPCInferenceServiceStub(channel)


async def first_chunk_seconds(stub: Any) -> float:
    """Return the seconds to the first chunk over a new ModelStreamInfer call."""
    started = time.perf_counter()
    call = stub.ModelStreamInfer()
    await call.write(_infer_request())
    await call.done_writing()
    await call.read()
    seconds = time.perf_counter() - started
    while await call.read() is not grpc.aio.EOF:
        pass
    return seconds


def first_byte_seconds(connection: http.client.HTTPConnection) -> float:
    """Return the seconds to the first byte behind the WAV header, which is audio."""
    started = time.perf_counter()
    connection.request("POST", "/v1/audio/speech", BODY, HEADERS)
    response = connection.getresponse()
    response.read(45)
    seconds = time.perf_counter() - started
    response.read()
    return seconds


def _infer_request() -> service_pb2.ModelInferRequest:
    request = service_pb2.ModelInferRequest(model_name=MODEL)
    request.parameters["triton_enable_empty_final_response"].bool_param = True
    for name, array in SynthesisRequest(TEXT, voice="heart").to_tensors().items():
        request.inputs.add(name=name, datatype="BYTES", shape=array.shape)
        request.raw_input_contents.append(serialize_byte_tensor(array).item())
    return request


def _percentiles(values: Sequence[float]) -> str:
    deciles = statistics.quantiles(values, n=10)
    return f"{deciles[4]:.2f} / {deciles[8]:.2f}"


@contextmanager
def _process(command: list[str], port: int) -> Generator[psutil.Process, None, None]:
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(port, process)
            yield psutil.Process(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} ended with exit code {process.returncode}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
