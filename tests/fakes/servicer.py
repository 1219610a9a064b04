"""The far side of the protocol: what a Triton answers, with a model that follows a Script."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import numpy as np
from tritonclient.grpc import service_pb2
from tritonclient.utils import (
    deserialize_bytes_tensor,
    np_to_triton_dtype,
    serialize_byte_tensor,
    triton_to_np_dtype,
)

from fakes.script import Abort, Fail, Garbage, Gate, Hang, Misplaced, Pause, Script, Tally
from fakes.statistics import StatisticsServicer
from speech_wire import CANCEL_PARAMETER, PcmChunk, SynthesisRequest

if TYPE_CHECKING:
    from fakes.tokenizer import FakeTokenizer


@dataclass
class Seen:
    """What reached the model: requests and their ids, and how streams began and ended."""

    requests: list[SynthesisRequest] = field(default_factory=list)
    request_ids: list[str] = field(default_factory=list)
    metadata: list[dict[str, str]] = field(default_factory=list)
    """What came with each stream beside its messages."""
    started: Tally = field(default_factory=Tally)
    finished: Tally = field(default_factory=Tally)
    """The model came to the end of its script, whether that is FINAL, an error or neither."""
    cancelled: Tally = field(default_factory=Tally)
    ended: Tally = field(default_factory=Tally)
    """Finished or cancelled."""
    cut: Tally = field(default_factory=Tally)
    """RPCs that were cancelled."""
    most_at_once: int = 0

    @property
    def open_streams(self) -> int:
        """Streams that have not ended."""
        return self.started.count - self.ended.count


class Servicer(StatisticsServicer):
    def __init__(self, models: tuple[str, ...]) -> None:
        super().__init__(models)
        self.script = Script()
        self.tokenizer: FakeTokenizer | None = None
        self.seen = Seen()

    async def ModelReady(self, request: Any, _: Any) -> Any:  # noqa: N802  gRPC's name
        is_ready = self.script.is_ready and request.name in self.models
        return service_pb2.ModelReadyResponse(ready=is_ready)

    async def ModelConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        if self.tokenizer is not None and request.name == self.tokenizer.name:
            return service_pb2.ModelConfigResponse(config=self.tokenizer.config())
        if request.name not in self.models:
            words = f"Request for unknown model: '{request.name}' is not found"
            await context.abort(grpc.StatusCode.NOT_FOUND, words)
        return service_pb2.ModelConfigResponse(config=self.script.config(request.name))

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        assert self.tokenizer is not None
        return await self.tokenizer.infer(request, context)

    async def ModelStreamInfer(self, requests: Any, context: Any) -> None:  # noqa: N802
        self.seen.metadata.append(dict(context.invocation_metadata()))
        context = _Answers(context)
        incoming = aiter(requests)
        reading = asyncio.ensure_future(_next(incoming))
        answering: asyncio.Task[None] | None = None
        try:
            while True:
                await asyncio.wait({reading, *_some(answering)}, return_when="FIRST_COMPLETED")
                if answering is not None and answering.done():
                    answering.result()
                    if not self.script.sends_final:
                        return
                    answering = None
                elif (request := reading.result()) is None:
                    await asyncio.gather(*_some(answering))
                    return
                else:
                    answering = await self._take(request, answering, context)
                    reading = asyncio.ensure_future(_next(incoming))
        except asyncio.CancelledError:
            self.seen.cut.add()
            raise
        finally:
            for task in (reading, *_some(answering)):
                task.cancel()

    async def _take(
        self, request: Any, answering: asyncio.Task[None] | None, context: Any
    ) -> asyncio.Task[None] | None:
        if CANCEL_PARAMETER not in request.parameters:
            return asyncio.ensure_future(self._answer(request, context))
        if answering is not None:
            answering.cancel()
            await asyncio.wait({answering})
            await context.write(_response(request, is_final=True))
        await context.write(_response(request, is_final=True))
        return None

    async def _answer(self, request: Any, context: Any) -> None:
        self.seen.started.add()
        self.seen.most_at_once = max(self.seen.most_at_once, self.seen.open_streams)
        try:
            await self._speak(request, context)
            # Counted before FINAL is sent: the client may be gone as soon as it has that.
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
            said = _decode(request, script)
        except ValueError as error:
            await context.write(service_pb2.ModelStreamInferResponse(error_message=str(error)))
            return
        self.seen.requests.append(said)
        self.seen.request_ids.append(request.id)
        steps = script.steps if script.by_text is None else script.by_text(said)
        last = max((i for i, s in enumerate(steps) if isinstance(s, np.ndarray)), default=-1)
        for index, step in enumerate(steps):
            if isinstance(step, (np.ndarray, Misplaced)):
                samples = step if isinstance(step, np.ndarray) else step.samples
                at = offset if isinstance(step, np.ndarray) else offset + 1
                reason = "stop" if index == last else None
                voice = self._made_voice(said) if offset == 0 else None
                chunk = PcmChunk(samples, script.sample_rate_hz, at, reason, voice)
                await context.write(_response(request, _encode(chunk, script)))
                offset += len(samples)
            else:
                await _misbehave(step, request, context)

    def _made_voice(self, said: SynthesisRequest) -> Any:
        """Return the tokens of a voice that nobody had before, if one is asked for."""
        if said.gender is None or not self.script.gives_made_voice:
            return None
        made = [request for request in self.seen.requests if request.gender is not None]
        return np.full(32, len(made), np.int32)


class _Answers:
    """An RPC's answers, one at a time; one that is being sent is sent whoever is cancelled."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._sending: asyncio.Future[None] | None = None

    async def write(self, message: Any) -> None:
        if self._sending is not None:
            await asyncio.wait({self._sending})
        self._sending = asyncio.ensure_future(self._context.write(message))
        await asyncio.shield(self._sending)

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        await self._context.abort(code, details)


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


async def _next(incoming: Any) -> Any:
    return await anext(incoming, None)


def _some(task: asyncio.Task[None] | None) -> tuple[asyncio.Task[None], ...]:
    return () if task is None else (task,)
