"""A Triton in this process: its real protocol, and a model that follows a Script.

`python tests/fakes/triton.py --port 8001` serves one until it is killed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import (
    deserialize_bytes_tensor,
    np_to_triton_dtype,
    serialize_byte_tensor,
    triton_to_np_dtype,
)

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from fakes.script import (
    NO_SAMPLES,
    Abort,
    Fail,
    Garbage,
    Gate,
    Hang,
    Misplaced,
    Pause,
    Script,
    Tally,
    tone,
    tones,
)
from speech_wire import PcmChunk, SynthesisRequest

if TYPE_CHECKING:
    from types import TracebackType

__all__ = [
    "NO_SAMPLES",
    "Abort",
    "Fail",
    "FakeTriton",
    "Garbage",
    "Gate",
    "Hang",
    "Misplaced",
    "Pause",
    "Script",
    "Seen",
    "Tally",
    "tone",
    "tones",
]

STEP_SECONDS = 10.0
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


@dataclass
class Seen:
    """What reached the model: requests and their ids, and how streams began and ended."""

    requests: list[SynthesisRequest] = field(default_factory=list)
    request_ids: list[str] = field(default_factory=list)
    started: Tally = field(default_factory=Tally)
    finished: Tally = field(default_factory=Tally)
    """The model came to the end of its script, whether that is FINAL, an error or neither."""
    cancelled: Tally = field(default_factory=Tally)
    ended: Tally = field(default_factory=Tally)
    """Finished or cancelled."""

    @property
    def open_streams(self) -> int:
        """Streams that have not ended."""
        return self.started.count - self.ended.count


class _Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):
    def __init__(self, models: tuple[str, ...]) -> None:
        self.models = models
        self.script = Script()
        self.seen = Seen()

    async def ServerReady(self, _: Any, __: Any) -> Any:  # noqa: N802  gRPC's name
        return service_pb2.ServerReadyResponse(ready=True)

    async def ModelReady(self, request: Any, _: Any) -> Any:  # noqa: N802
        is_ready = self.script.is_ready and request.name in self.models
        return service_pb2.ModelReadyResponse(ready=is_ready)

    async def ModelConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.name not in self.models:
            words = f"Request for unknown model: '{request.name}' is not found"
            await context.abort(grpc.StatusCode.NOT_FOUND, words)
        return service_pb2.ModelConfigResponse(config=self.script.config(request.name))

    async def ModelStreamInfer(self, requests: Any, context: Any) -> None:  # noqa: N802
        async for request in requests:
            self.seen.started.add()
            try:
                await self._speak(request, context)
                # Counted before FINAL is sent: the client may cancel as soon as it has that.
                self.seen.finished.add()
            except asyncio.CancelledError:
                self.seen.cancelled.add()
                raise
            except Exception:
                self.seen.finished.add()
                raise
            finally:
                self.seen.ended.add()
            if self.script.sends_final and _wants_final(request):
                await context.write(_response(request, is_final=True))

    async def _speak(self, request: Any, context: Any) -> None:
        script, offset = self.script, 0
        try:
            self.seen.requests.append(_decode(request, script))
        except ValueError as error:
            await context.write(service_pb2.ModelStreamInferResponse(error_message=str(error)))
            return
        self.seen.request_ids.append(request.id)
        last = max((i for i, s in enumerate(script.steps) if isinstance(s, np.ndarray)), default=-1)
        for index, step in enumerate(script.steps):
            if isinstance(step, (np.ndarray, Misplaced)):
                samples = step if isinstance(step, np.ndarray) else step.samples
                at = offset if isinstance(step, np.ndarray) else offset + 1
                reason = "stop" if index == last else None
                chunk = PcmChunk(samples, script.sample_rate_hz, at, reason)
                await context.write(_response(request, _encode(chunk, script)))
                offset += len(samples)
            else:
                await _misbehave(step, request, context)


async def _misbehave(step: Any, request: Any, context: Any) -> None:
    match step:
        case Gate():
            await step.wait()
        case Pause():
            await asyncio.sleep(step.seconds)
        case Fail():
            await context.write(service_pb2.ModelStreamInferResponse(error_message=step.message))
        case Abort():
            await context.abort(step.code, step.details)
        case Hang():
            await asyncio.Event().wait()
        case Garbage():
            await context.write(_response(request, {"waveform": np.arange(8, dtype=np.int32)}))


def _wants_final(request: Any) -> bool:
    return bool(request.parameters["triton_enable_empty_final_response"].bool_param)


def _decode(request: Any, script: Script) -> SynthesisRequest:
    arrays = {}
    for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True):
        is_bytes = tensor.datatype == "BYTES"
        dtype = triton_to_np_dtype(tensor.datatype)
        flat = deserialize_bytes_tensor(raw) if is_bytes else np.frombuffer(raw, dtype)
        array = flat.reshape(tuple(tensor.shape))
        arrays[tensor.name] = array[0] if script.is_batched else array
    if unknown := arrays.keys() - {spec.name for spec in script.inputs}:
        raise ValueError(f"unexpected inference input {sorted(unknown)}")
    return SynthesisRequest.from_tensors(arrays)


def _encode(chunk: PcmChunk, script: Script) -> dict[str, Any]:
    declared = {spec.name for spec in script.outputs}
    tensors = {name: array for name, array in chunk.to_tensors().items() if name in declared}
    return {name: array[None] if script.is_batched else array for name, array in tensors.items()}


def _response(
    request: Any, tensors: dict[str, Any] | None = None, *, is_final: bool = False
) -> Any:
    message = service_pb2.ModelStreamInferResponse()
    response = message.infer_response
    response.model_name, response.model_version, response.id = request.model_name, "1", request.id
    response.parameters["triton_final_response"].bool_param = is_final
    for name, array in (tensors or {}).items():
        dtype = np_to_triton_dtype(array.dtype)
        response.outputs.add(name=name, datatype=dtype, shape=array.shape)
        is_bytes = array.dtype == np.object_
        raw = serialize_byte_tensor(array).item() if is_bytes else array.tobytes()
        response.raw_output_contents.append(raw)
    return message


class FakeTriton:
    """A server in a thread of its own; `stop` and `start` keep its port.

    >>> with FakeTriton(Script([tone(), Hang()])) as triton: ...
    """

    def __init__(
        self, script: Script | None = None, *, port: int = 0, models: tuple[str, ...] = ("hibari",)
    ) -> None:
        self.port = port
        self._servicer = _Servicer(models)
        self._servicer.script = script or Script()
        self._stop: Future[None] | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """host:port for SPEECH_TRITON_ADDRESS."""
        return f"127.0.0.1:{self.port}"

    @property
    def script(self) -> Script:
        """What the model does with the next requests; set it at any time."""
        return self._servicer.script

    @script.setter
    def script(self, script: Script) -> None:
        self._servicer.script = script

    @property
    def seen(self) -> Seen:
        """What reached the model."""
        return self._servicer.seen

    def __enter__(self) -> FakeTriton:  # noqa: PYI034  Self needs Python 3.11
        self.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Serve; returns once the port is open."""
        bound: Future[int] = Future()
        self._stop = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(bound)), name="fake-triton", daemon=True
        )
        self._thread.start()
        self.port = bound.result(STEP_SECONDS)

    def stop(self) -> None:
        """Cut all streams and free the port. Idempotent."""
        if self._stop is None or self._thread is None:
            return
        self._stop.set_result(None)
        self._thread.join(STEP_SECONDS)
        self._stop = self._thread = None

    async def _serve(self, bound: Future[int]) -> None:
        try:
            server = grpc.aio.server(options=OPTIONS)
            service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(self._servicer, server)
            port = server.add_insecure_port(f"127.0.0.1:{self.port}")
            await server.start()
        except BaseException as error:
            bound.set_exception(error)
            raise
        bound.set_result(port)
        await asyncio.wrap_future(self._stop)
        await server.stop(grace=None)


def main() -> None:
    """Serve until killed, at a pace: for benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--samples", type=int, default=4800, help="samples of each chunk, 24 kHz")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds before each chunk")
    options = parser.parse_args()
    steps: list[Any] = []
    for chunk in tones(options.chunks, options.samples):
        steps += [Pause(options.pause), chunk] if options.pause else [chunk]
    with FakeTriton(Script(steps), port=options.port) as triton:
        print(f"fake Triton on {triton.address}", flush=True)  # noqa: T201
        threading.Event().wait()


if __name__ == "__main__":
    main()
