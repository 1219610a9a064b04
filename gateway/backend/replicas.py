"""Which Triton gets a call: the choice among those that there are."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import contextmanager
from copy import copy
from random import Random
from typing import TYPE_CHECKING

from gateway.backend.choice import leading, least_loaded_of_two, load
from gateway.backend.roster import Roster
from gateway.errors import BackendUnavailableError, MisconfiguredError, OverloadedError, SpeechError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator

    from gateway.backend.contracts import ModelContract
    from gateway.backend.replica import Replica
    from gateway.backend.upstream import UpstreamCounts
    from gateway.backend.way import Way
    from gateway.settings import Settings
    from gateway.speech.deadline import Deadline

log = logging.getLogger("speech.replicas")


class Replicas:
    """The pool of Tritons. Make it inside the running event loop; it works until `aclose`.

    While one is ready, nothing here waits for the network: who gets a call is decided by what
    probes and calls have told before.
    """

    def __init__(
        self,
        settings: Settings,
        way: Way,
        counts: UpstreamCounts,
        rng: Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._models = settings.models
        self._source = way.source
        self._rng = rng or Random()  # noqa: S311  it spreads load
        self._clock = clock
        self._roster = Roster(settings, way, counts, clock)
        self._leading: dict[str, ModelContract] = {}
        self._told_set_aside: dict[Replica, list[str]] = {}
        self._roster.after_probe = self._tell_set_aside

    async def aclose(self) -> None:
        """Stop probing and close all channels, after the calls that were given up have ended."""
        await self._roster.aclose()

    def all(self) -> list[Replica]:
        """Return all that have a channel, those that are leaving last."""
        return [*self._roster.present, *self._roster.leaving]

    def present(self) -> list[Replica]:
        """Return those that there are now."""
        return self._roster.present

    def contract(self, model: str) -> ModelContract | None:
        """Return what the model declares on those Tritons that get its new requests now."""
        usable = self._usable(model)
        first = usable[0].contracts[model] if usable else None
        if any(replica.contracts[model] is not first for replica in usable):
            of_each = ((replica.contracts[model], replica.capacity) for replica in usable)
            first = leading(of_each, self._leading.get(model))
        if first is not None:
            self._leading[model] = first
        return first

    def set_aside(self) -> dict[Replica, list[str]]:
        """Return those with models that get nothing new, since they differ from the others'."""
        found: dict[Replica, list[str]] = {}
        for model in self._models:
            leading = self.contract(model)
            for replica in self._roster.present:
                if _answers(replica, model) and leading not in (None, replica.contracts[model]):
                    found.setdefault(replica, []).append(model)
        return found

    def _tell_set_aside(self) -> None:
        found = self.set_aside()
        for replica, models in found.items():
            if self._told_set_aside.get(replica) != models:
                fields = {
                    "replica": replica.name,
                    "models": ",".join(models),
                    "reason": "it has another checkpoint, other voices or other inputs than the "
                    "Tritons with the most capacity, and gets no new requests for these models",
                }
                log.warning("replica.set_aside", extra={"fields": fields})
        self._told_set_aside = found

    def address_problem(self) -> str:
        """Return why it cannot be told now which Tritons there are, "" while it can."""
        return self._source.problem

    def candidates(self, model: str, contract: ModelContract) -> list[Replica]:
        """Return the Tritons that may speak by this contract: the ready ones, if there are any."""
        return self._usable(model, contract)

    def _usable(self, model: str, contract: ModelContract | None = None) -> list[Replica]:
        answering = [
            replica
            for replica in self._roster.present
            if _answers(replica, model) and contract in (None, replica.contracts[model])
        ]
        # Where none is ready, those that were ejected are better than nothing.
        return [r for r in answering if r.health.state == "ready"] or answering

    async def answering(self) -> list[Replica]:
        """Return those that can be asked for anything, the least loaded first.

        Raises SpeechError if there are none.
        """
        if not self._answering():
            await self.refresh(self._models)
        if not self._answering():
            raise self.reason(self._models[0])
        return self._answering()

    def _answering(self) -> list[Replica]:
        answering = [r for r in self._roster.present if r.health.answers]
        ready = [r for r in answering if r.health.state == "ready"]
        return sorted(ready or answering, key=load)

    async def choose(
        self, those: Callable[[], list[Replica]], wait_seconds: float
    ) -> Replica | None:
        """Return one of those with room for a call, None once there are none of them.

        Raises OverloadedError if none has room in time. Begin the call before anything else is
        awaited.
        """
        give_up_at_seconds = self._clock() + wait_seconds
        while (chosen := least_loaded_of_two(found := those(), self._rng)) is None:
            if not found:
                break
            left_seconds = give_up_at_seconds - self._clock()
            if left_seconds <= 0:
                raise OverloadedError(
                    "every Triton that could speak this has as many streams as it takes, and none "
                    f"came free within {wait_seconds:g} s; try again, or raise "
                    "SPEECH_REPLICA_MAX_STREAMS or add a Triton"
                )
            await self._roster.wait_changed(left_seconds)
        return chosen

    @contextmanager
    def call(self, replica: Replica, deadline: Deadline) -> Generator[None, None, None]:
        """Count a call as in flight, and note how it ends.

        Of one that its deadline or its listener ended, nothing is told of the Triton.
        """
        replica.begin()
        try:
            yield
        except SpeechError as error:
            if deadline.remaining_seconds() > 0:
                self._roster.failed(replica, error)
            raise
        else:
            replica.health.succeeded()
        finally:
            replica.end()
            self._roster.wake()

    async def refresh(self, models: Collection[str]) -> None:
        """Probe all; return once each of the models is ready somewhere, or all have answered."""
        await self._roster.wait_known()
        probing = {self._roster.probe(replica): replica for replica in self._roster.present}
        wanted, pending = set(models), set(probing)
        while wanted and pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for replica in (probing[task] for task in done):
                wanted -= {model for model in models if _answers(replica, model)}

    async def probe_all(self) -> dict[str, SpeechError]:
        """Probe all; return those to which nothing may be sent, with the reason."""
        await self._roster.wait_known()
        if probes := [self._roster.probe(replica) for replica in self._roster.present]:
            await asyncio.wait(probes)
        closed = (replica for replica in self._roster.present if replica.target() is None)
        reasons = {replica.name: next(iter(replica.unready.values())) for replica in closed}
        return reasons | self._roster.refused

    async def unready(self) -> dict[str, SpeechError]:
        """Return the models that no Triton can speak with now, each with the reason."""
        try:
            await self.refresh(self._models)
        except SpeechError as error:
            return dict.fromkeys(self._models, error)
        return {model: self.reason(model) for model in self._models if not self._usable(model)}

    def reason(self, model: str) -> SpeechError:
        """Return why no Triton can speak with this model."""
        reasons = [r.unready[model] for r in self._roster.present if model in r.unready]
        reasons += self._roster.refused.values()
        if not reasons:
            return BackendUnavailableError("no Triton is known (SPEECH_TRITON_ADDRESS)")
        passing = (e for e in reasons if not isinstance(e, MisconfiguredError))
        return copy(next(passing, reasons[0]))


def _answers(replica: Replica, model: str) -> bool:
    return replica.health.answers and model in replica.contracts
