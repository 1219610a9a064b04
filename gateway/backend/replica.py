"""One Triton: its channel, what its models declare, its health, and the calls that it has."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from tritonclient.grpc import service_pb2, service_pb2_grpc

from gateway.backend.classify import HUNG_UP, WANTS_A_CERTIFICATE, WANTS_TLS, classify_error
from gateway.backend.contracts import read_contract
from gateway.backend.statistics import Target
from gateway.backend.stream import StreamCaller
from gateway.backend.tokenizer import read_tokenizer
from gateway.errors import (
    BackendFailedError,
    BackendTimeoutError,
    BackendUnavailableError,
    MisconfiguredError,
    NoConnectionError,
    SpeechError,
)
from gateway.speech.types import ReplicaStatus

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence

    import numpy as np
    import numpy.typing as npt

    from gateway.backend.addresses import Address
    from gateway.backend.contracts import ModelContract
    from gateway.backend.health import Health
    from gateway.backend.security import Security
    from gateway.backend.stream import StreamLimits
    from gateway.backend.tokenizer import TokenizerContract
    from gateway.settings import Settings
    from gateway.speech.synthesizer import CallContext
    from gateway.speech.types import VoiceTokens
    from speech_wire import PcmChunk, SynthesisRequest


class Calls:
    """How many calls a Triton has, over all connections to it."""

    def __init__(self) -> None:
        self.count = 0


class Replica:
    """A Triton. Make it inside the running event loop; raises MisconfiguredError.

    `health` is another's to judge: calls only raise SpeechError. `contracts` are of its last
    probe; `unready` says why a model has none.
    """

    def __init__(
        self,
        address: Address,
        settings: Settings,
        security: Security,
        limits: StreamLimits,
        health: Health,
    ) -> None:
        self.address = address
        self.name = address.id
        self.capacity = address.capacity
        self.health = health
        self.calls = Calls()
        """Of another, too, where this is a new connection to its Triton."""
        self._own_calls = 0
        self.contracts: dict[str, ModelContract] = {}
        self.unready: dict[str, SpeechError] = {}
        self._models: Sequence[str] = settings.models
        self._default_rate_hz = settings.default_sample_rate_hz
        self._tokenizer_model = settings.tokenizer_model
        self._tokenizer: TokenizerContract | None = None
        self._connect_seconds = settings.connect_timeout_seconds
        self._answer_seconds = settings.probe_timeout_seconds
        self.security = security
        self._metadata = security.metadata_for(address)
        self._channel = security.open_channel(address, self._connect_seconds)
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._caller = StreamCaller(self.stub, limits)
        self._is_permitted = False
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def share(self) -> float:
        """What it should have of its part of the load."""
        return self.health.share

    @property
    def in_flight(self) -> int:
        """Calls that its Triton has."""
        return self.calls.count

    def begin(self) -> None:
        """Count a call as in flight."""
        self.calls.count += 1
        self._own_calls += 1
        self._is_idle.clear()

    def end(self) -> None:
        """Count it no longer."""
        self.calls.count -= 1
        self._own_calls -= 1
        if not self._own_calls:
            self._is_idle.set()

    async def stream(
        self, model: str, request: SynthesisRequest, context: CallContext
    ) -> AsyncGenerator[PcmChunk, None]:
        """Yield the chunks of one call, see Synthesizer.stream."""
        contract = self.contracts[model]
        # Callers may choose the same id for two requests, and a cancel must find the right one.
        unique_id = f"{context.request_id}.{secrets.token_hex(4)}"
        message = contract.request(request, unique_id)
        expected_offset = 0
        metadata = (*self._metadata, *context.span.headers())
        cancel = partial(contract.cancel, unique_id)
        try:
            async with aclosing(
                self._caller.stream(message, cancel, context.deadline, metadata)
            ) as responses:
                async for response in responses:
                    chunk = contract.chunk(response)
                    _check_offset(chunk, expected_offset)
                    expected_offset += len(chunk.samples)
                    yield chunk
                    del response, chunk
        except NoConnectionError as error:
            raise self._located(error) from error

    async def tokenise(self, samples: npt.NDArray[np.float32], context: CallContext) -> VoiceTokens:
        """See Synthesizer.tokenise."""
        contract = await self.tokenizer()
        message = contract.request(samples)
        try:
            answer = await self.stub.ModelInfer(
                message,
                timeout=context.deadline.remaining_seconds(),
                metadata=(*self._metadata, *context.span.headers()),
            )
        except (grpc.aio.AioRpcError, grpc.aio.UsageError) as error:
            self._tokenizer = None
            words = f"Triton's model {contract.model!r} could not tokenise a recorded voice"
            # Its frames hold the call, and that one has gRPC dial even when its channel is closed.
            reason = self._located(classify_error(error))
            raise reason.within(words) from error.with_traceback(None)
        return contract.tokens(answer)

    async def tokenizer(self) -> TokenizerContract:
        """Return what the tokenizer takes, known since the last probe at the earliest."""
        if self._tokenizer is None:
            request = service_pb2.ModelConfigRequest(name=self._tokenizer_model)
            try:
                answer = await self._ask(self.stub.ModelConfig, request)
            except MisconfiguredError as error:
                words = f"recorded voices need the model {self._tokenizer_model!r} on Triton"
                message = f"{words} (SPEECH_TOKENIZER_MODEL): {error.message}"
                raise MisconfiguredError(message, detail=error.detail) from error
            self._tokenizer = read_tokenizer(answer.config)
        return self._tokenizer

    async def probe(self) -> None:
        """Ask what is ready, and note it."""
        found: Iterable[ModelContract | SpeechError]
        try:
            if not self._is_connected():
                self._is_permitted = False
                await self.security.check(self.address)
                self._is_permitted = True
            await self._check_server()
        except SpeechError as error:
            found = [error] * len(self._models)
        else:
            found = await asyncio.gather(*map(self._contract, self._models))
        self._tokenizer = None
        self._note(dict(zip(self._models, found, strict=True)))

    def _note(self, found: dict[str, ModelContract | SpeechError]) -> None:
        errors = {m: e.bare() for m, e in found.items() if isinstance(e, SpeechError)}
        contracts = {m: c for m, c in found.items() if not isinstance(c, SpeechError)}
        self.health.probed(None if contracts else next(iter(errors.values())))
        # One that is silent may only be busy: what it said counts as long as its health does.
        silent = {m for m, e in errors.items() if e.fault == "silent" and self.health.answers}
        kept = {m: contract for m, contract in self.contracts.items() if m in silent}
        self.contracts = contracts | kept
        self.unready = {m: error for m, error in errors.items() if m not in kept}

    async def _check_server(self) -> None:
        answer = await self._ask(self.stub.ServerReady, service_pb2.ServerReadyRequest())
        if not answer.ready:
            raise BackendUnavailableError("Triton says that it is not ready")

    async def _contract(self, model: str) -> ModelContract | SpeechError:
        try:
            # First, since only this one's answer tells a model that is not there from one that
            # is not ready.
            request = service_pb2.ModelConfigRequest(name=model)
            answer = await self._ask(self.stub.ModelConfig, request)
            contract = read_contract(answer.config, self._default_rate_hz)
            ready = service_pb2.ModelReadyRequest(name=model)
            if not (await self._ask(self.stub.ModelReady, ready)).ready:
                return BackendUnavailableError("Triton says that the model is not ready")
        except MisconfiguredError as error:
            named = MisconfiguredError(f"model '{model}': {error.message}", detail=error.detail)
            named.__cause__ = error
            return named
        except SpeechError as error:
            return error
        return contract

    async def _ask(self, method: Any, request: Any) -> Any:
        connect_seconds = 0.0 if self._is_connected() else self._connect_seconds
        patience_seconds = self._answer_seconds + connect_seconds
        try:
            return await method(request, timeout=patience_seconds, metadata=self._metadata)
        except (grpc.aio.AioRpcError, grpc.aio.UsageError) as error:
            reason = self._located(classify_error(error))
            raise self._unanswered(reason) from error.with_traceback(None)

    def _unanswered(self, reason: SpeechError) -> SpeechError:
        if not isinstance(reason, BackendTimeoutError):
            return reason
        within = f"{self._answer_seconds:g} s (SPEECH_PROBE_TIMEOUT_SECONDS)"
        return BackendTimeoutError(f"Triton has not answered within {within}", detail=reason.detail)

    def _is_connected(self) -> bool:
        return self._channel.get_state() is grpc.ChannelConnectivity.READY

    def _located(self, error: SpeechError) -> SpeechError:
        if HUNG_UP.search(error.detail):
            message = WANTS_TLS if self.address.tls == "off" else WANTS_A_CERTIFICATE
            return BackendUnavailableError(message, detail=error.detail)
        if not isinstance(error, NoConnectionError):
            return error
        message = (
            f"no connection to Triton within {self._connect_seconds:g} s "
            "(SPEECH_CONNECT_TIMEOUT_SECONDS)"
        )
        # The address is for the log: callers need not know it.
        return NoConnectionError(message, detail=f"{self.address.target}: {error.detail}")

    def target(self) -> Target | None:
        """Return what asks it for its statistics; None while nothing may be sent to it."""
        if not self._is_permitted:
            return None
        return Target(self.name, self.stub, self.address.metrics, self._metadata)

    def status(self) -> ReplicaStatus:
        """Return what it is now, as plain data."""
        return ReplicaStatus(
            name=self.name,
            address=self.address.target,
            tls=self.address.tls,
            state=self.health.state,
            state_seconds=self.health.state_seconds,
            in_flight=self._own_calls,
            capacity=self.capacity,
            ejections=self.health.ejections,
            last_error=self.health.last_error,
            last_error_seconds=self.health.last_error_seconds,
            models=tuple(sorted(self.contracts)),
        )

    async def wait_idle(self) -> None:
        """Return once no call is in flight."""
        await self._is_idle.wait()

    async def aclose(self) -> None:
        """Close the channel, after the calls that were given up have ended."""
        await self._caller.aclose()
        await self._channel.close()
        self.unready = {}


def _check_offset(chunk: PcmChunk, expected: int) -> None:
    if chunk.sample_offset is not None and chunk.sample_offset != expected:
        raise BackendFailedError(
            "the model left a gap in its audio",
            detail=f"chunk at sample {chunk.sample_offset}, expected {expected}",
        )
