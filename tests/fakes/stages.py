"""The stages of Spark-TTS as a Triton in this process: its real protocol, models by script."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc
import numpy as np
from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc
from tritonclient.utils import np_to_triton_dtype, triton_to_np_dtype

from fakes.script import TRITON_TYPES, Abort, Fail, Hang, Tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

Arrays: TypeAlias = "dict[str, npt.NDArray[Any]]"
BOOL = model_config_pb2.TYPE_BOOL
INT32, FP32, UINT64 = (TRITON_TYPES[name] for name in ("INT32", "FP32", "UINT64"))
LLM_INPUTS = {
    "input_ids": INT32,
    "input_lengths": INT32,
    "request_output_len": INT32,
    "end_id": INT32,
    "pad_id": INT32,
    "streaming": BOOL,
    "stop": BOOL,
    "temperature": FP32,
    "runtime_top_k": INT32,
    "runtime_top_p": FP32,
    "random_seed": UINT64,
}
VOCODER_INPUTS = {
    "semantic_tokens": INT32,
    "length": INT32,
    "kept_tokens": INT32,
    "global_tokens": INT32,
}
TOKENIZER_INPUTS = {"reference_wav": FP32, "reference_wav_len": INT32}


@dataclass(frozen=True)
class Wrote:
    """The language model's next ids; `padding` follows them, as some releases have it."""

    ids: Sequence[int]
    padding: int = 0
    request_id: str | None = None


@dataclass(frozen=True)
class Spoiled:
    """A message of the language model that says something else, or loses its bytes."""

    outputs: Arrays
    loses_bytes: bool = False


class Pause(threading.Event):
    """The model waits at it until a test sets it, or until it is told to stop."""


@dataclass
class Behaviour:
    """What the models do. `answer` is what the vocoder and the tokenizer say, or an error."""

    steps: Sequence[Any] = (Wrote([1, 2]), Wrote([3]))
    sends_final: bool = True
    obeys_stop: bool = True
    batch: int = 8
    parameters: dict[str, str] = field(default_factory=dict)
    llm_inputs: dict[str, int] = field(default_factory=lambda: dict(LLM_INPUTS))
    answer: Arrays | Abort = field(default_factory=dict)
    answer_id: str | None = None
    hold: Pause | None = None


class FakeStages(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Serves `llm`, `vocoder` and `audio_tokenizer` on a free port; a context manager."""

    def __init__(self, behaviour: Behaviour | None = None) -> None:
        self.behaviour = behaviour or Behaviour()
        self.requests: list[tuple[str, str, Arrays]] = []
        self.configs = Tally()
        self.asked = Tally()
        self.streams = Tally()
        self.stopped = Tally()
        self.cut = Tally()
        self.ended = Tally()
        self._server = grpc.server(ThreadPoolExecutor(64))
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> FakeStages:  # noqa: PYI034  Self needs Python 3.11
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(grace=None).wait()

    def ModelConfig(self, request: Any, context: Any) -> Any:  # noqa: N802  gRPC's name
        known = {
            "llm": self.behaviour.llm_inputs,
            "vocoder": VOCODER_INPUTS,
            "audio_tokenizer": TOKENIZER_INPUTS,
        }
        if request.name not in known:
            context.abort(grpc.StatusCode.NOT_FOUND, f"unknown model: '{request.name}'")
        self.configs.add()
        config = model_config_pb2.ModelConfig(name=request.name)
        config.max_batch_size = self.behaviour.batch
        for name, data_type in known[request.name].items():
            config.input.add(name=name, data_type=data_type)
        for name, value in self.behaviour.parameters.items():
            config.parameters[name].string_value = value
        return service_pb2.ModelConfigResponse(config=config)

    def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.requests.append((request.model_name, request.id, _decode(request)))
        answer = self.behaviour.answer
        self.asked.add()
        if self.behaviour.hold is not None:
            self.behaviour.hold.wait()
        if not context.is_active():
            self.cut.add()
        self.ended.add()
        if isinstance(answer, Abort):
            context.abort(answer.code, answer.details)
        return _response(self.behaviour.answer_id or request.id, answer)

    def ModelStreamInfer(self, requests: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        request = next(requests)
        self.requests.append((request.model_name, request.id, _decode(request)))
        self.streams.add()
        stop, gone = threading.Event(), threading.Event()
        context.add_callback(gone.set)
        reader = threading.Thread(target=self._read, args=(requests, request.id, stop))
        reader.start()
        try:
            for step in self.behaviour.steps:
                if stop.is_set() and self.behaviour.obeys_stop:
                    break
                yield from self._do(step, request, (stop, gone))
        except GeneratorExit:
            # gRPC asks for nothing more once the RPC was cut while a message was sent.
            self.cut.add()
            raise
        if gone.is_set():
            self.cut.add()
        if self.behaviour.sends_final:
            yield _message(_response(request.id, {}), is_final=True)
            reader.join()
        if stop.is_set():
            yield _message(_response(request.id, {}), is_final=True)
        self.ended.add()

    def _read(self, requests: Any, request_id: str, stop: threading.Event) -> None:
        try:
            for request in requests:
                tensors = _decode(request)
                assert request.id == request_id
                assert tensors["stop"].all()
                self.stopped.add()
                stop.set()
        except grpc.RpcError:
            return

    def _do(
        self, step: Any, request: Any, events: tuple[threading.Event, threading.Event]
    ) -> Iterator[Any]:
        match step:
            case Wrote():
                padded = [*step.ids, *[0] * step.padding]
                outputs = {
                    "output_ids": np.array([[padded]], np.int32),
                    "sequence_length": np.array([[len(step.ids)]], np.int32),
                }
                yield _message(_response(step.request_id or request.id, outputs))
            case Spoiled():
                response = _response(request.id, step.outputs)
                if step.loses_bytes:
                    response.ClearField("raw_output_contents")
                yield _message(response)
            case Fail():
                yield service_pb2.ModelStreamInferResponse(error_message=step.message)
            case Pause():
                while not (step.is_set() or any(event.is_set() for event in events)):
                    step.wait(0.001)
            case Hang():
                events[1].wait()


def _decode(request: Any) -> Arrays:
    pairs = zip(request.inputs, request.raw_input_contents, strict=True)
    return {
        tensor.name: np.frombuffer(raw, triton_to_np_dtype(tensor.datatype)).reshape(tensor.shape)
        for tensor, raw in pairs
    }


def _response(request_id: str, outputs: Arrays) -> Any:
    response = service_pb2.ModelInferResponse(id=request_id)
    for name, array in outputs.items():
        response.outputs.add(name=name, datatype=np_to_triton_dtype(array.dtype), shape=array.shape)
        response.raw_output_contents.append(array.tobytes())
    return response


def _message(response: Any, *, is_final: bool = False) -> Any:
    response.parameters["triton_final_response"].bool_param = is_final
    return service_pb2.ModelStreamInferResponse(infer_response=response)
