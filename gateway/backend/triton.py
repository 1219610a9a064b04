"""The Synthesizer that is one Triton or many: what one of them fails to do, another may."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from gateway.backend.attempts import Attempts
from gateway.backend.replicas import Replicas
from gateway.backend.upstream import UpstreamCounts
from gateway.backend.way import Way
from gateway.errors import BackendUnavailableError, InvalidRequestError, SpeechError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import numpy as np
    import numpy.typing as npt

    from gateway.backend.contracts import ModelContract
    from gateway.backend.replica import Replica
    from gateway.backend.statistics import Target
    from gateway.settings import Settings
    from gateway.speech.deadline import Deadline
    from gateway.speech.synthesizer import CallContext
    from gateway.speech.types import ReplicaStatus, TextLimits, Voice, VoiceTokens
    from speech_wire import PcmChunk, SynthesisRequest


@dataclass(slots=True)
class _Bond:
    """What the segments of a request share.

    That is what the model declares, so that the voice stays the same, and the Triton of the last
    segment.
    """

    contract: ModelContract
    replica: Replica | None = None


class TritonSynthesizer:
    """Speaks through the models of all Tritons. Make it inside the running event loop."""

    def __init__(self, settings: Settings, way: Way | None = None) -> None:
        self._models = settings.models
        self._tokenizer_model = settings.tokenizer_model
        self._first_wait_seconds = settings.admission_wait_seconds
        self._later_wait_seconds = settings.first_audio_timeout_seconds
        self.counts = UpstreamCounts()
        self._replicas = Replicas(settings, way or Way.of(settings), self.counts)
        # A request has one deadline, and with it ends the bond.
        self._bonds: WeakKeyDictionary[Deadline, dict[str, _Bond]] = WeakKeyDictionary()

    async def aclose(self) -> None:
        """Close the channels, after the calls that were given up have ended."""
        await self._replicas.aclose()

    async def stream(
        self, model: str, request: SynthesisRequest, context: CallContext
    ) -> AsyncGenerator[PcmChunk, None]:
        """See Synthesizer.stream.

        Until the first chunk is passed on, another Triton may take over from one that fails.
        """
        bond = await self._bond(model, context.deadline)
        if request.seed is not None and "seed" not in bond.contract.inputs:
            raise InvalidRequestError(f"model '{model}' takes no 'seed'", param="seed")
        attempts = Attempts(context.deadline)
        while True:
            replica = await self._choose(model, bond, attempts)
            is_passed_on = False
            try:
                async with aclosing(self._speak(replica, model, request, context)) as chunks:
                    async for chunk in chunks:
                        is_passed_on = True
                        yield chunk
                        del chunk
            except SpeechError as error:
                if is_passed_on or not attempts.may_go_on(replica, error):
                    raise
            else:
                bond.replica = replica
                return

    async def _speak(
        self, replica: Replica, model: str, request: SynthesisRequest, context: CallContext
    ) -> AsyncGenerator[PcmChunk, None]:
        """Yield what one Triton speaks, and note all that is to be noted of the call."""
        context.asks(replica.name)
        call = context.span.child("triton.stream", is_call=True, model=model, replica=replica.name)
        with (
            self._replicas.call(replica, context.deadline),
            self.counts.stream(model, replica.name),
            call as span,
        ):
            told = replace(context, span=span)
            async with aclosing(replica.stream(model, request, told)) as chunks:
                async for chunk in chunks:
                    yield chunk
                    del chunk

    async def voices(self, model: str, *, is_fresh: bool = False) -> tuple[Voice, ...]:
        """See Synthesizer.voices."""
        return (await self._contract(model, is_fresh=is_fresh)).voices

    async def takes(self, model: str, tensor: str, deadline: Deadline | None = None) -> bool:
        """See Synthesizer.takes."""
        return tensor in (await self._bond(model, deadline)).contract.inputs

    async def text_limits(self, model: str) -> TextLimits:
        """See Synthesizer.text_limits."""
        return (await self._contract(model)).text_limits

    async def checkpoint(self, model: str, deadline: Deadline | None = None) -> str:
        """See Synthesizer.checkpoint."""
        return (await self._bond(model, deadline)).contract.checkpoint

    async def tokenizer(self) -> str:
        """See Synthesizer.tokenizer."""
        attempts: list[SpeechError] = []
        for replica in await self._replicas.answering():
            try:
                return (await replica.tokenizer()).name
            except SpeechError as error:
                attempts.append(error)
        raise attempts[0]

    async def tokenise(self, samples: npt.NDArray[np.float32], context: CallContext) -> VoiceTokens:
        """See Synthesizer.tokenise."""
        attempts = Attempts(context.deadline)
        for replica in await self._tokenising():
            try:
                return await self._tokenise(replica, samples, context)
            except SpeechError as error:
                if not attempts.may_go_on(replica, error):
                    raise
        raise attempts.error

    async def _tokenising(self) -> list[Replica]:
        """Return those that have the tokenizer, and the same one; raises SpeechError for none."""
        names, errors = {}, []
        for replica in await self._replicas.answering():
            try:
                names[replica] = (await replica.tokenizer()).name
            except SpeechError as error:
                errors.append(error)
        if not names:
            raise errors[0]
        first = next(iter(names.values()))
        return [replica for replica, name in names.items() if name == first]

    async def _tokenise(
        self, replica: Replica, samples: npt.NDArray[np.float32], context: CallContext
    ) -> VoiceTokens:
        model = self._tokenizer_model
        call = context.span.child(
            "triton.tokenise", is_call=True, model=model, replica=replica.name
        )
        with (
            self._replicas.call(replica, context.deadline),
            self.counts.call(model, replica.name),
            call as span,
        ):
            return await replica.tokenise(samples, replace(context, span=span))

    async def unready(self) -> dict[str, SpeechError]:
        """See Synthesizer.unready."""
        return await self._replicas.unready()

    def targets(self) -> tuple[Target, ...]:
        """Return the Tritons there are now, for whoever asks for their statistics."""
        targets = (replica.target() for replica in self._replicas.present())
        return tuple(target for target in targets if target is not None)

    async def probe_all(self) -> dict[str, SpeechError]:
        """Probe all; return those to which nothing may be sent, with the reason.

        Raises SpeechError where it cannot be told which Tritons there are.
        """
        return await self._replicas.probe_all()

    def statuses(self) -> tuple[ReplicaStatus, ...]:
        """See Synthesizer.statuses."""
        set_aside = self._replicas.set_aside()
        return tuple(
            replace(replica.status(), set_aside=tuple(set_aside.get(replica, ())))
            for replica in self._replicas.all()
        )

    def address_problem(self) -> str:
        """See Synthesizer.address_problem."""
        return self._replicas.address_problem()

    async def _choose(self, model: str, bond: _Bond, attempts: Attempts) -> Replica:
        """Return the Triton for the next attempt: that of the last segment while it can."""

        def those() -> list[Replica]:
            alike = self._replicas.candidates(model, bond.contract)
            untried = [replica for replica in alike if replica not in attempts.tried]
            last = bond.replica
            is_kept = last is not None and last in untried and last.in_flight < last.capacity
            return [last] if is_kept and last is not None else untried

        is_first = bond.replica is None
        patience_seconds = self._first_wait_seconds if is_first else self._later_wait_seconds
        wait_seconds = min(patience_seconds, attempts.deadline.remaining_seconds())
        # Again, where those that it waited for are gone meanwhile.
        while (chosen := await self._replicas.choose(those, wait_seconds)) is None:
            if attempts.tried:
                raise attempts.error
            await self._replicas.refresh([model])
            if not those():
                raise self._gone(model)
        return chosen

    def _gone(self, model: str) -> SpeechError:
        if self._replicas.contract(model) is None:
            return self._replicas.reason(model)
        return BackendUnavailableError(
            "the model was replaced by another while the text was spoken, which would go on in "
            "another voice"
        )

    async def _bond(self, model: str, deadline: Deadline | None) -> _Bond:
        bonds = {} if deadline is None else self._bonds.setdefault(deadline, {})
        if model not in bonds:
            bonds[model] = _Bond(await self._contract(model))
        return bonds[model]

    async def _contract(self, model: str, *, is_fresh: bool = False) -> ModelContract:
        contract = None if is_fresh else self._replicas.contract(model)
        if contract is None:
            await self._replicas.refresh([model])
            contract = self._replicas.contract(model)
        if contract is None:
            raise self._replicas.reason(model)
        return contract
