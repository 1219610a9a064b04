"""The Synthesizer that is a Triton behind one gRPC channel."""

from __future__ import annotations

import secrets
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any

import grpc.aio
from tritonclient.grpc import service_pb2, service_pb2_grpc

from gateway.backend.classify import classify
from gateway.backend.contracts import ModelContract, read_contract
from gateway.backend.statistics import Replica
from gateway.backend.stream import StreamCaller, StreamLimits
from gateway.backend.tokenizer import TokenizerContract, read_tokenizer
from gateway.backend.upstream import UpstreamCounts
from gateway.errors import (
    BackendFailedError,
    BackendUnavailableError,
    InvalidRequestError,
    MisconfiguredError,
    NoConnectionError,
    SpeechError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    import numpy as np
    import numpy.typing as npt

    from gateway.settings import Settings
    from gateway.speech.deadline import Deadline
    from gateway.speech.synthesizer import CallContext
    from gateway.speech.types import TextLimits, Voice, VoiceTokens
    from speech_wire import PcmChunk, SynthesisRequest

ASK_SECONDS = 5.0
"""How long a connected Triton may take to answer a question."""
CHANNEL_OPTIONS = [
    # Raw stubs keep gRPC's 4 MiB limit, 43 s of 24 kHz float32.
    ("grpc.max_receive_message_length", 2**31 - 1),
    ("grpc.max_send_message_length", 2**31 - 1),
    # gRPC's own back-off grows to two minutes; a Triton restarts in seconds.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


class TritonSynthesizer:
    """Speaks through the models of one Triton. Make it inside the running event loop."""

    def __init__(self, settings: Settings) -> None:
        self._models = settings.models
        self._default_rate_hz = settings.default_sample_rate_hz
        limits = StreamLimits(settings.first_audio_timeout_seconds, settings.gap_timeout_seconds)
        self._address = settings.triton_address
        self._metrics_address = settings.triton_metrics_address
        self._connect_seconds = settings.connect_timeout_seconds
        # Despite its name, this is how long gRPC gives an attempt to connect (else 20 s).
        patience = ("grpc.min_reconnect_backoff_ms", round(self._connect_seconds * 1000))
        self._channel = grpc.aio.insecure_channel(self._address, [*CHANNEL_OPTIONS, patience])
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._caller = StreamCaller(self._stub, limits)
        self._contracts: dict[str, ModelContract] = {}
        self.counts = UpstreamCounts()
        self.counts.start_at_zero(settings.models, self._address)
        self._tokenizer_model = settings.tokenizer_model
        self._tokenizer: TokenizerContract | None = None

    async def aclose(self) -> None:
        """Close the channel, after the calls that were given up have ended."""
        await self._caller.aclose()
        await self._channel.close()

    def replicas(self) -> tuple[Replica, ...]:
        """Return the Tritons there are now, for whoever asks for their statistics."""
        return (Replica(self._address, self._stub, self._metrics_address),)

    async def stream(
        self, model: str, request: SynthesisRequest, context: CallContext
    ) -> AsyncGenerator[PcmChunk, None]:
        """See Synthesizer.stream."""
        context.asks(self._address)
        contract = await self._contract(model)
        if request.seed is not None and "seed" not in contract.inputs:
            raise InvalidRequestError(f"model '{model}' takes no 'seed'", param="seed")
        # Callers may choose the same id for two requests, and a cancel must find the right one.
        unique_id = f"{context.request_id}.{secrets.token_hex(4)}"
        message = contract.request(request, unique_id)
        expected_offset = 0
        call = context.span.child("triton.stream", is_call=True, model=model, replica=self._address)
        with self._outages(model), self.counts.stream(model, self._address), call as span:
            cancel = contract.cancel(unique_id)
            calling = self._caller.stream(message, cancel, context.deadline, span.headers())
            async with aclosing(calling) as responses:
                async for response in responses:
                    chunk = contract.chunk(response)
                    _check_offset(chunk, expected_offset)
                    expected_offset += len(chunk.samples)
                    yield chunk

    async def voices(self, model: str, *, is_fresh: bool = False) -> tuple[Voice, ...]:
        """See Synthesizer.voices."""
        return (await self._contract(model, is_fresh=is_fresh)).voices

    async def takes(self, model: str, tensor: str) -> bool:
        """See Synthesizer.takes."""
        return tensor in (await self._contract(model)).inputs

    async def text_limits(self, model: str) -> TextLimits:
        """See Synthesizer.text_limits."""
        return (await self._contract(model)).text_limits

    async def checkpoint(self, model: str) -> str:
        """See Synthesizer.checkpoint."""
        return (await self._contract(model)).checkpoint

    async def tokenizer(self) -> str:
        """See Synthesizer.tokenizer."""
        contract = await self._tokenizer_contract()
        return f"{contract.model} {contract.checkpoint}"

    async def tokenise(self, samples: npt.NDArray[np.float32], deadline: Deadline) -> VoiceTokens:
        """See Synthesizer.tokenise."""
        contract = await self._tokenizer_contract()
        message = contract.request(samples)
        try:
            answer = await self._stub.ModelInfer(message, timeout=deadline.remaining_seconds())
        except grpc.aio.AioRpcError as error:
            self._tokenizer = None
            reason = self._located(classify(error.code(), error.details() or ""))
            words = f"Triton's model {contract.model!r} could not tokenise a recorded voice"
            raise type(reason)(f"{words}: {reason.message}", detail=reason.detail) from error
        return contract.tokens(answer)

    async def unready(self) -> dict[str, SpeechError]:
        """See Synthesizer.unready."""
        reasons = {}
        for model in self._models:
            try:
                await self._check_ready(model)
            except SpeechError as error:
                reasons[model] = error
        return reasons

    async def _check_ready(self, model: str) -> None:
        request = service_pb2.ModelReadyRequest(name=model)
        server = await self._ask(self._stub.ServerReady, service_pb2.ServerReadyRequest())
        answer = await self._ask(self._stub.ModelReady, request)
        if not (server.ready and answer.ready):
            raise BackendUnavailableError("Triton says that the model is not ready")
        await self._contract(model, is_fresh=True)
        self._tokenizer = None

    async def _contract(self, model: str, *, is_fresh: bool = False) -> ModelContract:
        if is_fresh or model not in self._contracts:
            with self.counts.call(model, self._address):
                self._contracts[model] = await self._read_contract(model)
        return self._contracts[model]

    async def _read_contract(self, model: str) -> ModelContract:
        request = service_pb2.ModelConfigRequest(name=model)
        try:
            answer = await self._ask(self._stub.ModelConfig, request)
        except MisconfiguredError as error:
            raise MisconfiguredError(
                f"model '{model}': {error.message}", detail=error.detail
            ) from error
        return read_contract(answer.config, self._default_rate_hz)

    async def _tokenizer_contract(self) -> TokenizerContract:
        if self._tokenizer is None:
            request = service_pb2.ModelConfigRequest(name=self._tokenizer_model)
            try:
                answer = await self._ask(self._stub.ModelConfig, request)
            except MisconfiguredError as error:
                words = f"recorded voices need the model {self._tokenizer_model!r} on Triton"
                message = f"{words} (SPEECH_TOKENIZER_MODEL): {error.message}"
                raise MisconfiguredError(message, detail=error.detail) from error
            self._tokenizer = read_tokenizer(answer.config)
        return self._tokenizer

    async def _ask(self, method: Any, request: Any) -> Any:
        try:
            return await method(request, timeout=ASK_SECONDS + self._connecting_seconds())
        except grpc.aio.AioRpcError as error:
            raise self._located(classify(error.code(), error.details() or "")) from error

    @contextmanager
    def _outages(self, model: str) -> Generator[None, None, None]:
        try:
            yield
        except BackendUnavailableError as error:
            # What comes back may be another model under the same name.
            self._contracts.pop(model, None)
            self._tokenizer = None
            raise self._located(error) from error

    def _connecting_seconds(self) -> float:
        is_connected = self._channel.get_state() is grpc.ChannelConnectivity.READY
        return 0.0 if is_connected else self._connect_seconds

    def _located(self, error: SpeechError) -> SpeechError:
        if not isinstance(error, NoConnectionError):
            return error
        message = (
            f"no connection to Triton within {self._connect_seconds:g} s "
            "(SPEECH_CONNECT_TIMEOUT_SECONDS)"
        )
        # The address is for the log: callers need not know it.
        return NoConnectionError(message, detail=f"{self._address}: {error.detail}")


def _check_offset(chunk: PcmChunk, expected: int) -> None:
    if chunk.sample_offset is not None and chunk.sample_offset != expected:
        raise BackendFailedError(
            "the model left a gap in its audio",
            detail=f"chunk at sample {chunk.sample_offset}, expected {expected}",
        )
