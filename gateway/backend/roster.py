"""Which Tritons there are: follows their addresses, and probes each of them."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.backend.certificates import follow
from gateway.backend.deep_probe import speak_a_word
from gateway.backend.health import Health
from gateway.backend.renewal import Renewal
from gateway.backend.replica import Replica
from gateway.backend.stream import StreamLimits
from gateway.errors import (
    BackendTimeoutError,
    BackendUnavailableError,
    MisconfiguredError,
    SpeechError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from gateway.backend.addresses import Address
    from gateway.backend.upstream import UpstreamCounts
    from gateway.backend.way import Way
    from gateway.settings import Settings

log = logging.getLogger("speech.replicas")

CLOSE_SECONDS = 1.0
"""How long a probe that is under way may go on when all ends."""


class Roster:
    """All Tritons. Make it inside the running event loop; it works until `aclose`."""

    def __init__(
        self,
        settings: Settings,
        way: Way,
        counts: UpstreamCounts,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.refused: dict[str, SpeechError] = {}
        """Why there is no channel to a Triton, by its name."""
        self.after_probe: Callable[[], None] = lambda: None
        """Called when a probe may have changed what is known of models."""
        self._settings = settings
        self._source = way.source
        self._counts = counts
        self._clock = clock
        self._security = way.security
        self._limits = StreamLimits(
            settings.first_audio_timeout_seconds, settings.gap_timeout_seconds
        )
        self._present: dict[str, Replica] = {}
        self._leaving: list[Replica] = []
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._probes: dict[Replica, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_known = asyncio.Event()
        self._changed = asyncio.Event()
        self._spawn(self._follow())
        if way.security.certificates.are_files:
            self._spawn(self._follow_certificates())

    async def aclose(self) -> None:
        """Stop probing and close all channels, after the calls that were given up have ended."""
        tasks = [*self._tasks, *self._watching.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # gRPC comes back to the loop for what is cut off, and the loop may be closed by then.
        if self._probes:
            await asyncio.wait(self._probes.values(), timeout=CLOSE_SECONDS)
        await asyncio.gather(*map(self._close, (*self.present, *self.leaving)))

    @property
    def present(self) -> list[Replica]:
        """Those that there are now."""
        return list(self._present.values())

    @property
    def leaving(self) -> list[Replica]:
        """Those that are no longer there, and still have calls."""
        return list(self._leaving)

    async def wait_known(self) -> None:
        """Return once it is known which Tritons there are; raises BackendUnavailableError."""
        if not self._is_known.is_set() and not self._source.problem:
            seconds = self._settings.connect_timeout_seconds
            knowing = asyncio.ensure_future(self._is_known.wait())
            try:
                await asyncio.wait({knowing}, timeout=seconds)
            finally:
                knowing.cancel()
        if not self._is_known.is_set():
            raise BackendUnavailableError(
                "the addresses of Triton cannot be told (SPEECH_TRITON_ADDRESS)",
                detail=self._source.problem,
            )

    def probe(self, replica: Replica) -> asyncio.Task[None]:
        """Return the probe that is under way, or begin one."""
        if replica not in self._probes:
            self._probes[replica] = task = asyncio.create_task(self._ask(replica))
            task.add_done_callback(lambda _: self._probes.pop(replica))
        return self._probes[replica]

    def failed(self, replica: Replica, error: SpeechError) -> None:
        """Note a failed call."""
        before = replica.health.state
        replica.health.failed(error, may_eject=self._may_eject())
        self._note_change(replica, before, error)
        if replica.health.state not in (before, "draining"):
            self.probe(replica)

    async def wait_changed(self, seconds: float) -> None:
        """Return when a state has changed or a call has ended, or after that time."""
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({changed}, timeout=seconds)
        finally:
            changed.cancel()

    def wake(self) -> None:
        """Let those look again who wait for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _follow(self) -> None:
        async for addresses in self._source.watch():
            self._update({address.id: address for address in addresses})
            self._is_known.set()

    async def _follow_certificates(self) -> None:
        before = ""
        first, every_seconds = self._security.certificates, self._settings.probe_interval_seconds
        async for held, problem in follow(first, every_seconds):
            if held is not self._security.certificates:
                self._security = replace(self._security, certificates=held)
            for replica in filter(_is_renewable, self.present):
                if problem or before == replica.health.last_error:
                    replica.health.last_error = problem
            before = problem

    def _update(self, addresses: dict[str, Address]) -> None:
        for replica in self.present:
            if addresses.get(replica.name) != replica.address:
                self._remove(replica)
        self.refused = {n: e for n, e in self.refused.items() if n in addresses}
        for name, address in addresses.items():
            if name not in self._present:
                self._add(address)

    def _add(self, address: Address, health: Health | None = None) -> None:
        health = health or Health(self._clock, self._settings.slow_start_seconds)
        try:
            replica = Replica(address, self._settings, self._security, self._limits, health)
        except MisconfiguredError as error:
            _log("replica.refused", address.id, reason=error.message)
            self.refused[address.id] = error
            return
        self._enter(replica)

    def _enter(self, replica: Replica) -> None:
        _log("replica.added", replica.name, logging.INFO, address=replica.address.target)
        self.refused.pop(replica.name, None)
        self._present[replica.name] = replica
        models = (*self._settings.models, self._settings.tokenizer_model)
        self._counts.start_at_zero(models, replica.name)
        self._watching[replica.name] = asyncio.create_task(self._watch(replica))

    def _remove(self, replica: Replica) -> None:
        _log("replica.removed", replica.name, logging.INFO, in_flight=replica.in_flight)
        del self._present[replica.name]
        self._watching.pop(replica.name).cancel()
        self._leaving.append(replica)
        replica.health.leave()
        self._spawn(self._see_off(replica))
        self.wake()

    async def _see_off(self, replica: Replica) -> None:
        await replica.wait_idle()
        await self._close(replica)
        self._leaving.remove(replica)
        if replica.name not in self._present:
            self._counts.forget(replica.name)

    async def _close(self, replica: Replica) -> None:
        await replica.aclose()
        # Its channel has ended it.
        if probe := self._probes.get(replica):
            await asyncio.wait({probe})

    async def _watch(self, replica: Replica) -> None:
        deep_every_seconds = self._settings.deep_probe_interval_seconds
        due_at_seconds = self._clock() + deep_every_seconds
        renewal = Renewal()
        while True:
            await asyncio.wait({self.probe(replica)})
            if replica.health.is_stuck:
                # TCP itself would take minutes to give the connection up.
                _log("replica.connection_given_up", replica.name)
                renewed = replica.health.renewed()
                self._remove(replica)
                self._add(replica.address, renewed)
                return
            is_old = _is_renewable(replica) and replica.security is not self._security
            if is_old and renewal.is_due(self._security, self._clock()):
                if await self._renew(replica):
                    return
                if replica.health.answers:
                    renewal.failed(self._clock())
            if deep_every_seconds and self._clock() >= due_at_seconds:
                await self._probe_deeply(replica)
                due_at_seconds = self._clock() + deep_every_seconds
            await asyncio.sleep(self._settings.probe_interval_seconds)

    async def _renew(self, replica: Replica) -> bool:
        """Have one with the new certificates take its place; False where they do not work."""
        health = replica.health.renewed()
        renewed = Replica(replica.address, self._settings, self._security, self._limits, health)
        # The Triton takes no more of them because of a new connection.
        renewed.calls = replica.calls
        try:
            await asyncio.wait({self.probe(renewed)})
            if health.answers:
                health.last_error = ""
                self._remove(replica)
                self._enter(renewed)
            elif replica.health.answers:
                reason = f"not with the new certificates: {health.last_error}"
                if reason != replica.health.last_error:
                    _log("replica.kept", replica.name, reason=reason)
                replica.health.last_error = reason
            return health.answers
        finally:
            if self._present.get(replica.name) is not renewed:
                await self._close(renewed)

    async def _probe_deeply(self, replica: Replica) -> None:
        for model in self._settings.models:
            # While another model spoke, a probe may have found it without this one. One that is
            # full speaks anyway, and a word more would only wait.
            if model not in replica.contracts or replica.in_flight >= replica.capacity:
                continue
            successes = replica.health.successes
            replica.begin()
            try:
                error = await speak_a_word(replica, model)
            finally:
                replica.end()
                self.wake()
            is_only_busy = (
                isinstance(error, BackendTimeoutError) and replica.health.successes > successes
            )
            if error is not None and not is_only_busy:
                self.failed(replica, error)

    async def _ask(self, replica: Replica) -> None:
        before = replica.health.state
        await replica.probe()
        for model, contract in replica.contracts.items():
            # Equal contracts are one object, so that comparing them costs nothing.
            alike = (r.contracts.get(model) for r in self.present if r is not replica)
            replica.contracts[model] = next((c for c in alike if c == contract), contract)
        self._note_change(replica, before, next(iter(replica.unready.values()), None))
        self.after_probe()

    def _note_change(self, replica: Replica, before: str, error: SpeechError | None) -> None:
        state = replica.health.state
        if state == before:
            return
        level = logging.INFO if state == "ready" else logging.WARNING
        said = {} if error is None else {"reason": error.message, "detail": error.detail}
        _log(f"replica.{state}", replica.name, level, was=before, **said)
        self.wake()

    def _may_eject(self) -> bool:
        ejected = sum(replica.health.state == "ejected" for replica in self.present)
        return ejected + 1 <= len(self._present) * self._settings.max_ejected_share

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _is_renewable(replica: Replica) -> bool:
    return replica.address.tls != "off"


def _log(event: str, replica: str, level: int = logging.WARNING, **fields: str | int) -> None:
    log.log(level, event, extra={"fields": {"replica": replica, **fields}})
