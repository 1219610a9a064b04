"""Asks every replica for its statistics, again and again, and shows what came to a board."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import httpx

from gateway.backend.statistics import (
    ReplicaStatistics,
    Target,
    ask_metrics_page,
    ask_statistics,
)
from gateway.errors import SpeechError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

log = logging.getLogger("speech.triton")

DEADLINE_SECONDS = 3.0
"""How long a replica may take to answer; less where the interval is shorter."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The outcome of asking a replica once.

    `taken_at_seconds`, monotonic time, is when the statistics were there, and
    `duration_seconds` how long that took; the metrics page may have taken longer.
    """

    replica: str
    taken_at_seconds: float
    duration_seconds: float
    statistics: ReplicaStatistics | None
    error: SpeechError | None = None
    """Why there are no statistics."""
    metrics_page: str = ""


class Board(Protocol):
    """Where snapshots are shown."""

    def update(self, snapshot: Snapshot) -> None:
        """Show this one in place of the replica's last; raises ValueError if its page is none."""

    def keep(self, names: Collection[str]) -> None:
        """Show the replicas of these names, and no others."""


class StatisticsPoller:
    """Polls the replicas there are at the time, all at once. Make it inside the event loop.

    `served` are the models that should be ready on each.
    """

    def __init__(
        self,
        replicas: Callable[[], Collection[Target]],
        board: Board,
        served: Sequence[str],
        interval_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._replicas = replicas
        self._board = board
        self._served = served
        self._interval_seconds = interval_seconds
        # A round is over before the next is due, so one that hangs delays no other.
        self._deadline_seconds = min(DEADLINE_SECONDS, interval_seconds)
        self._clock = clock
        self._http = httpx.AsyncClient(trust_env=False, timeout=self._deadline_seconds)
        self._turn = asyncio.Lock()
        self._errors: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Poll until `aclose`."""
        self._task = asyncio.create_task(self._run())

    async def aclose(self) -> None:
        """Stop polling."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._http.aclose()

    async def poll(self) -> None:
        """Ask every replica once."""
        replicas = self._replicas()
        outcomes = await asyncio.gather(*map(self._ask, replicas), return_exceptions=True)
        self._keep(self._replicas())
        for replica, outcome in zip(replicas, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                # A fault of ours with one must not keep the others from being shown.
                fields = {"fields": {"replica": replica.name}}
                log.error("triton.poll_failed", exc_info=outcome, extra=fields)

    async def _run(self) -> None:
        while True:
            started_at = self._clock()
            try:
                await self.poll()
            except Exception:
                # A fault of ours in one round must not leave the figures as they are for ever.
                log.exception("triton.poll_failed")
            await asyncio.sleep(max(0.0, started_at + self._interval_seconds - self._clock()))

    async def _ask(self, replica: Target) -> None:
        snapshot, (page, page_error) = await asyncio.gather(
            self._ask_statistics(replica),
            ask_metrics_page(replica.metrics_address, self._http, self._deadline_seconds),
        )
        # One at a time, with a turn for requests after each: it takes milliseconds.
        async with self._turn:
            try:
                self._board.update(replace(snapshot, metrics_page=page))
            except ValueError as reason:
                page_error = f"http://{replica.metrics_address}/metrics: {reason}"
            await asyncio.sleep(0)
        self._log_change(replica.name, snapshot.error, page_error)

    async def _ask_statistics(self, replica: Target) -> Snapshot:
        started_at = self._clock()
        statistics, error = None, None
        try:
            statistics = await ask_statistics(replica, self._served, self._deadline_seconds)
        except SpeechError as reason:
            error = reason.bare()
        now = self._clock()
        return Snapshot(replica.name, now, now - started_at, statistics, error)

    def _keep(self, replicas: Collection[Target]) -> None:
        names = {replica.name for replica in replicas}
        self._board.keep(names)
        self._errors = {name: words for name, words in self._errors.items() if name in names}

    def _log_change(self, replica: str, error: SpeechError | None, page_error: str) -> None:
        # Details of one and the same failure differ from time to time.
        words = error.message if error else page_error
        if words == self._errors.get(replica, ""):
            return
        self._errors[replica] = words
        if error:
            fields = {"replica": replica, "error": error.code, "detail": f"{error} {error.detail}"}
            log.warning("triton.no_statistics", extra={"fields": fields})
        elif page_error:
            fields = {"replica": replica, "detail": page_error}
            log.warning("triton.no_metrics_page", extra={"fields": fields})
        else:
            log.info("triton.statistics_again", extra={"fields": {"replica": replica}})
