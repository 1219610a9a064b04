"""`stages.Stages` over gRPC to the Triton that this model runs in."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

from speech_backend.loopback.channel import open_channel
from speech_backend.loopback.siblings import Sibling, call_failed
from speech_backend.loopback.token_call import Patience, TokenCall
from speech_backend.stages import AT_ONCE, ReferenceTokens
from speech_wire import LoopbackAccess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from speech_backend.stages import Sampling


@dataclass(frozen=True, slots=True)
class StageNames:
    """What the models behind an utterance are called in this Triton."""

    llm: str = "llm"
    vocoder: str = "vocoder"
    audio_tokenizer: str = "audio_tokenizer"


class LoopbackStages:
    """The stages as models of the Triton at `address` (host:port), or where `access` says.

    Made and used in one event loop. At most `at_once` windows and recordings are with them, those
    that nobody wants any more included, so that no queue of theirs runs over. The models are asked
    for when they are first needed: while Triton loads this one, its gRPC port is not open yet.
    Raises StageError, and InvalidInputError where a stage blames the caller.
    """

    def __init__(
        self,
        address: str,
        names: StageNames | None = None,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.monotonic,
        access: LoopbackAccess | None = None,
        at_once: int = AT_ONCE,
    ) -> None:
        self._names = names or StageNames()
        self._patience = patience or Patience()
        self._clock = clock
        access = access or LoopbackAccess()
        self._channel = open_channel(access.address or address, access)
        self._metadata = access.metadata()
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._lock = asyncio.Lock()
        self._siblings: dict[str, Sibling] = {}
        self._calls: set[TokenCall] = set()
        self._room = asyncio.Semaphore(at_once)
        self._running: set[asyncio.Future[Any]] = set()

    async def stream_tokens(
        self, prompt_ids: npt.NDArray[np.int32], sampling: Sampling
    ) -> TokenCall:
        """See Stages.stream_tokens."""
        model = await self._sibling(self._names.llm)
        # A number: tensorrt_llm's backend hashes every other id.
        request_id = str(secrets.randbits(63))
        tensors = _llm_tensors(model, prompt_ids, sampling)
        request = model.request(tensors, request_id)
        request.parameters["triton_enable_empty_final_response"].bool_param = True
        # Complete, since Triton wants every input that is not optional; the model looks at `stop`.
        stop = model.request({**tensors, "stop": [True]}, request_id)
        call = TokenCall(
            partial(self._stub.ModelStreamInfer, metadata=self._metadata),
            model,
            (request, stop),
            self._patience,
            self._clock,
        )
        self._calls = {other for other in self._calls if not other.has_ended} | {call}
        return call

    async def decode_window(
        self,
        semantic_tokens: npt.NDArray[np.int32],
        length: int,
        kept: range,
        global_tokens: npt.NDArray[np.int32],
    ) -> npt.NDArray[np.float32]:
        """See Stages.decode_window."""
        model = await self._sibling(self._names.vocoder)
        tensors: dict[str, npt.ArrayLike] = {
            "semantic_tokens": semantic_tokens,
            "length": [length],
            "kept_tokens": [kept.start, kept.stop],
            "global_tokens": global_tokens,
        }
        response = await self._infer(model, tensors)
        return model.output(response, "waveform").astype(np.float32, copy=False)

    async def tokenise_reference(self, samples: npt.NDArray[np.float32]) -> ReferenceTokens:
        """See Stages.tokenise_reference."""
        model = await self._sibling(self._names.audio_tokenizer)
        response = await self._infer(
            model, {"reference_wav": samples, "reference_wav_len": [len(samples)]}
        )
        return ReferenceTokens(
            model.output(response, "global_tokens").astype(np.int32),
            model.output(response, "semantic_tokens").astype(np.int32),
        )

    async def close(self) -> None:
        """Wait for the calls that are not wanted any more to end, then hang up."""
        for call in self._calls:
            call.close()
        # Each ends within `stop_seconds`, or is cut.
        await asyncio.gather(*(call.ended() for call in self._calls))
        if self._running:
            await asyncio.wait(self._running, timeout=self._patience.stop_seconds)
        await self._channel.close()

    async def _infer(self, model: Sibling, tensors: Mapping[str, npt.ArrayLike]) -> Any:
        request_id = str(secrets.randbits(63))
        request = model.request(tensors, request_id)
        seconds = self._patience.call_seconds
        response = await self._ask(model.name, self._stub.ModelInfer, request, seconds)
        model.check_id(response, request_id)
        return response

    async def _sibling(self, name: str) -> Sibling:
        async with self._lock:
            if name not in self._siblings:
                request = service_pb2.ModelConfigRequest(name=name)
                seconds = self._patience.stop_seconds
                answer = await self._ask(name, self._stub.ModelConfig, request, seconds)
                self._siblings[name] = Sibling.from_config(answer.config)
            return self._siblings[name]

    async def _ask(
        self, model: str, method: Callable[..., Any], request: Any, seconds: float
    ) -> Any:
        """Return the answer of a method of gRPC.

        The RPC goes on to its end when the one who waits for it is cancelled: to cancel one that
        the server is answering can crash Triton 2.51.
        """
        await self._room.acquire()
        running = asyncio.create_task(self._answer(method, request, seconds))
        self._running.add(running)
        running.add_done_callback(self._end)
        try:
            return await asyncio.shield(running)
        except grpc.RpcError as error:
            raise call_failed(model, error) from error

    async def _answer(self, method: Callable[..., Any], request: Any, seconds: float) -> Any:
        return await method(request, timeout=seconds, metadata=self._metadata)

    def _end(self, running: asyncio.Future[Any]) -> None:
        self._running.discard(running)
        self._room.release()
        if not running.cancelled():
            # Looked at here, since the one who waited may have gone.
            running.exception()


def _llm_tensors(
    model: Sibling, prompt_ids: npt.NDArray[np.int32], sampling: Sampling
) -> dict[str, npt.ArrayLike]:
    """Return the inputs of a language model with tensorrt_llm's names, which differ by release."""
    end_id, *other_ends = sampling.stop_ids
    tensors: dict[str, npt.ArrayLike] = {
        "input_ids": prompt_ids,
        "input_lengths": [len(prompt_ids)],
        "request_output_len": [sampling.max_new_tokens],
        "end_id": [end_id],
        "pad_id": [end_id],
        "streaming": [True],
        "temperature": [sampling.temperature],
        "runtime_top_k": [sampling.top_k],
        "runtime_top_p": [sampling.top_p],
    }
    # Without it other models draw the same each time, and a second try would be no other take. In
    # a batch, a seed costs time.
    if sampling.seed is not None or not model.draws_seeds:
        seed = secrets.randbits(63) if sampling.seed is None else sampling.seed
        tensors |= {name: [seed] for name in model.those_of("random_seed", "seed")}
    if "exclude_input_in_output" in model.dtypes:
        tensors["exclude_input_in_output"] = [True]
    if other_ends and "stop_words_list" in model.dtypes:
        # Words of one id each: the ids, and below each the length of all words up to it.
        tensors["stop_words_list"] = [other_ends, list(range(1, len(other_ends) + 1))]
    if sampling.allowed_ids and "allowed_ids" in model.dtypes:
        tensors["allowed_ids"] = sampling.allowed_ids
    if sampling.first_ids and "first_ids" in model.dtypes:
        tensors["first_ids"] = [sampling.first_ids]
    return tensors
