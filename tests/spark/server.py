"""A real Triton with Spark-TTS's models, and a client that sees everything it answers."""

from __future__ import annotations

import queue
import secrets
import signal
import sys
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import (
    deserialize_bytes_tensor,
    np_to_triton_dtype,
    serialize_byte_tensor,
    triton_to_np_dtype,
)

from engine.render import model_source, render_model
from engine.runs import DIRECTORY, PREFIX
from engine.site import Site
from engine.spark import spark_specs
from speech_wire import CANCEL_PARAMETER, PcmChunk, SynthesisRequest
from tritonserver.processes import Ports, Process, metric

if TYPE_CHECKING:
    from collections.abc import Iterator

FAKE_LLM = Path(__file__).parent / "llm" / "model.py"
RPC_SECONDS = 60
PREFIX_LENGTH = len(f"{PREFIX}01234567_")


@dataclass
class Heard:
    """What one request was answered with."""

    chunks: list[PcmChunk] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    finals: int = 0

    @property
    def samples(self) -> Any:
        return np.concatenate([chunk.samples for chunk in self.chunks])

    @property
    def is_whole(self) -> bool:
        """Whether speech came to its end, without gap or error."""
        offsets = np.cumsum([0, *(len(chunk.samples) for chunk in self.chunks)])[:-1].tolist()
        return (
            not self.errors
            and self.finals == 1
            and [chunk.sample_offset for chunk in self.chunks] == offsets
            and self.chunks[-1].finish_reason == "stop"
        )


class Call:
    """One request to a speech model; iterate over its chunks, `cancel` as the gateway does."""

    def __init__(self, stub: Any, request: SynthesisRequest, seconds: float) -> None:
        self.heard = Heard()
        self._request = infer_request("spark_tts", request.to_tensors(), secrets.token_hex(8))
        self._outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._outgoing.put(self._request)
        self.rpc = stub.ModelStreamInfer(iter(self._outgoing.get, None), timeout=seconds)

    def __iter__(self) -> Iterator[PcmChunk]:
        for message in self.rpc:
            if message.error_message:
                self.heard.errors.append(message.error_message)
            response = message.infer_response
            if response.outputs:
                self.heard.chunks.append(PcmChunk.from_tensors(tensors(response)))
                yield self.heard.chunks[-1]
            if response.parameters["triton_final_response"].bool_param:
                self.heard.finals += 1
                self._outgoing.put(None)

    def whole(self) -> Heard:
        """Listen to the end."""
        for _ in self:
            pass
        return self.heard

    def cancel(self) -> None:
        """Tell the model to stop, over the same stream."""
        cancel = service_pb2.ModelInferRequest()
        cancel.CopyFrom(self._request)
        cancel.parameters[CANCEL_PARAMETER].bool_param = True
        self._outgoing.put(cancel)
        self._outgoing.put(None)


def render_scripted(checkpoint: Path, repository: Path, triton_address: str) -> None:
    """Write a repository whose language model is the scripted one."""
    for spec in spark_specs(Site(checkpoint, triton_address=triton_address)):
        source = FAKE_LLM if spec.name == "llm" else model_source(spec.name)
        render_model(spec, source, repository)


class SparkServer:
    """An engine that serves what its options say."""

    def __init__(self, ports: Ports, *options: str) -> None:
        self.ports = ports
        where = ("--grpc-port", str(ports.grpc), "--metrics-port", str(ports.metrics))
        self.process = Process(
            sys.executable,
            *("-I", "-m", "engine", "serve", *options, *where),
        )
        self.process.wait_for("engine.ready", 120)
        self.stubs = self.process.children("triton_python_backend_stub")
        arguments = self.stubs[0].cmdline()
        (self._prefix,) = [word for word in arguments if word.startswith(PREFIX)]
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(ports.triton))

    def regions(self) -> list[str]:
        """Return what this server has in shared memory; others may run beside it."""
        return [path.name for path in DIRECTORY.glob(f"{self._prefix[:PREFIX_LENGTH]}*")]

    def call(self, request: SynthesisRequest, seconds: float = RPC_SECONDS) -> Call:
        """Start a request."""
        return Call(self.stub, request, seconds)

    def hear(self, request: SynthesisRequest, seconds: float = RPC_SECONDS) -> Heard:
        """Make a request and listen to the end."""
        return self.call(request, seconds).whole()

    def outcomes(self, model: str, outcome: str) -> float:
        """Return how many requests of a model have ended so."""
        name = "speech_model_requests_total"
        return metric(self.ports.metrics, name, model=model, outcome=outcome)

    def accepted(self) -> float:
        """Return how many requests the scripted language model has taken so far."""
        return metric(self.ports.metrics, "scripted_llm_accepted_total")

    def infer(self, model: str, arrays: dict[str, Any], *, is_batched: bool) -> dict[str, Any]:
        """Call a model that answers once; raises grpc.RpcError."""
        given = {name: array[None] if is_batched else array for name, array in arrays.items()}
        return tensors(self.stub.ModelInfer(infer_request(model, given, "test")))


def spoken(seed: int, tokens: int = 50, pace_ms: float = 1.0, **fields: Any) -> SynthesisRequest:
    """Return a request for `tokens` codes drawn with `seed`, in a voice that is given."""
    voice = np.random.default_rng(seed + 1).integers(0, 4096, 32).astype(np.int32)
    request = SynthesisRequest(
        "Hello there.", global_tokens=voice, seed=seed, top_k=tokens, temperature=pace_ms
    )
    return replace(request, max_new_tokens=tokens + 60, **fields)


def codes(seed: int, tokens: int) -> Any:
    """Return what the scripted language model says."""
    return np.random.default_rng(seed).integers(0, 8192, tokens)


def infer_request(model: str, arrays: dict[str, Any], request_id: str) -> Any:
    """Return a request with these arrays, as they are."""
    message = service_pb2.ModelInferRequest(model_name=model, id=request_id)
    message.parameters["triton_enable_empty_final_response"].bool_param = True
    for name, array in arrays.items():
        is_bytes = array.dtype == np.object_
        dtype = np_to_triton_dtype(array.dtype)
        message.inputs.add(name=name, datatype=dtype, shape=array.shape)
        raw = serialize_byte_tensor(array).item() if is_bytes else array.tobytes()
        message.raw_input_contents.append(raw)
    return message


def tensors(response: Any) -> dict[str, Any]:
    """Return the arrays of a response, without the shape that a batch gives them."""
    pairs = zip(response.outputs, response.raw_output_contents, strict=True)
    return {
        output.name: deserialize_bytes_tensor(raw)
        if output.datatype == "BYTES"
        else np.frombuffer(raw, triton_to_np_dtype(output.datatype))
        for output, raw in pairs
    }


def until(happened: Any, seconds: float = 10.0) -> None:
    """Look again until it has happened: other processes give no event to wait for."""
    ticks = threading.Event()
    for _ in range(int(seconds / 0.02)):
        if happened():
            return
        ticks.wait(0.02)
    raise AssertionError(f"nothing within {seconds} s")


def served(ports: Ports, *options: str) -> Iterator[SparkServer]:
    """Give a server that tests share; it must end well and leave nothing behind."""
    running = SparkServer(ports, *options)
    assert len(running.regions()) >= len(running.stubs)
    yield running
    assert running.process.stop(signal.SIGTERM) == 0
    assert running.regions() == []
