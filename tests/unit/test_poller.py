"""Asking several Tritons, which come, hang, die and go."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tritonclient.grpc import service_pb2_grpc

from fakes.statistics import FakeMetricsPage, model_statistics
from fakes.triton import FakeTriton
from gateway.backend.poller import Snapshot, StatisticsPoller
from gateway.backend.statistics import Target
from gateway.errors import BackendTimeoutError, BackendUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterator

WAIT_SECONDS = 10.0


class Board:
    """Keeps the last snapshot of each replica."""

    def __init__(self) -> None:
        self.snapshots: dict[str, Snapshot] = {}
        self.broken: str | None = None
        self._changed = asyncio.Event()

    def update(self, snapshot: Snapshot) -> None:
        self.snapshots[snapshot.replica] = snapshot
        self._changed.set()
        if snapshot.replica == self.broken:
            raise RuntimeError("a fault")
        if "<html>" in snapshot.metrics_page:
            raise ValueError("could not parse <html>")

    def keep(self, names: Collection[str]) -> None:
        self.snapshots = {name: s for name, s in self.snapshots.items() if name in names}

    async def has(self, name: str) -> None:
        while name not in self.snapshots:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), WAIT_SECONDS)


class World:
    """Two Tritons, `a` and `b`; those that `names` has are polled."""

    def __init__(self, a: FakeTriton, b: FakeTriton) -> None:
        self.a, self.b = a, b
        self.names = ["a", "b"]
        self.faults = 0
        self.page_of_a: str | None = None
        self.board = Board()
        self._stubs: dict[str, Any] = {}

    @asynccontextmanager
    async def polled(
        self, interval_seconds: float = 30.0, clock: Callable[[], float] = time.monotonic
    ) -> AsyncIterator[StatisticsPoller]:
        """Give a poller that asks when it is told to."""
        async with (
            grpc.aio.insecure_channel(self.a.address) as a,
            grpc.aio.insecure_channel(self.b.address) as b,
        ):
            stub = service_pb2_grpc.GRPCInferenceServiceStub
            self._stubs = {"a": stub(a), "b": stub(b)}
            poller = StatisticsPoller(self._replicas, self.board, (), interval_seconds, clock)
            try:
                yield poller
            finally:
                await poller.aclose()

    def _replicas(self) -> list[Target]:
        if self.faults:
            self.faults -= 1
            raise RuntimeError("a fault")
        pages = {"a": self.page_of_a}
        return [Target(name, self._stubs[name], pages.get(name)) for name in self.names]

    def poll(self, interval_seconds: float = 30.0) -> dict[str, Snapshot]:
        """Ask each replica once and return what the board has."""

        async def once() -> None:
            async with self.polled(interval_seconds) as poller:
                await poller.poll()

        asyncio.run(once())
        return self.board.snapshots


@pytest.fixture
def world() -> Iterator[World]:
    with FakeTriton() as a, FakeTriton() as b:
        yield World(a, b)


def test_every_replica_has_a_snapshot_of_its_own(world: World) -> None:
    world.a.statistics.models = [model_statistics("hibari", requests=3)]
    world.b.statistics.models = [model_statistics("hibari", requests=5)]

    snapshots = world.poll()

    counts = {n: s.statistics.models[0].inferences for n, s in snapshots.items() if s.statistics}
    assert counts == {"a": 3, "b": 5}
    assert all(snapshot.duration_seconds > 0 for snapshot in snapshots.values())


def test_one_that_is_down_is_shown_as_that(world: World) -> None:
    world.a.stop()

    snapshots = world.poll()

    assert snapshots["a"].statistics is None
    assert isinstance(snapshots["a"].error, BackendUnavailableError)
    assert snapshots["b"].statistics is not None


def test_one_that_hangs_delays_no_other(world: World) -> None:
    world.a.statistics.is_hanging = True

    async def watch() -> None:
        async with world.polled() as poller:
            polling = asyncio.create_task(poller.poll())
            await world.board.has("b")
            assert not polling.done()
            assert "a" not in world.board.snapshots
            polling.cancel()
            await asyncio.wait({polling})

    asyncio.run(watch())


def test_one_that_hangs_is_given_up_before_the_next_round(world: World) -> None:
    world.a.statistics.is_hanging = True

    snapshots = world.poll(interval_seconds=0.2)

    assert isinstance(snapshots["a"].error, BackendTimeoutError)


def test_one_that_is_gone_is_forgotten(world: World) -> None:
    world.poll()
    world.names = ["b"]

    assert world.poll().keys() == {"b"}


def test_one_that_goes_while_it_is_asked_does_not_come_back(world: World) -> None:
    world.a.statistics.is_hanging = True

    async def watch() -> None:
        async with world.polled(interval_seconds=1.0) as poller:
            polling = asyncio.create_task(poller.poll())
            await world.board.has("b")
            world.names = ["b"]
            await polling

    asyncio.run(watch())

    assert world.board.snapshots.keys() == {"b"}


def test_it_goes_on_by_itself_and_ends_when_closed(world: World) -> None:
    async def watch() -> None:
        async with world.polled(interval_seconds=0.05) as poller:
            poller.start()
            await world.board.has("a")
            world.names = ["b"]
            world.board.snapshots.clear()
            await world.board.has("b")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(watch())

    assert world.board.snapshots.keys() == {"b"}


def test_a_fault_in_one_round_is_logged_and_the_next_is_made(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def watch() -> None:
        world.faults = 1
        async with world.polled(interval_seconds=0.05) as poller:
            poller.start()
            await world.board.has("b")

    asyncio.run(watch())

    assert caplog.records[0].getMessage() == "triton.poll_failed"
    assert caplog.records[0].exc_info


def test_a_fault_with_one_replica_is_logged_and_the_others_are_shown(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.board.broken = "a"

    snapshots = world.poll()

    assert snapshots["b"].statistics is not None
    [record] = caplog.records
    assert record.getMessage() == "triton.poll_failed"
    assert fields_of(record) == {"replica": "a"}
    assert record.exc_info


def test_a_slow_metrics_page_makes_no_statistics_old_or_slow(world: World) -> None:
    moments = iter((10.0, 10.5, 20.0))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        world.names = ["a"]
        world.page_of_a = f"127.0.0.1:{silent.getsockname()[1]}"

        async def once() -> None:
            async with world.polled(0.3, clock=lambda: next(moments)) as poller:
                await poller.poll()

        asyncio.run(once())

    snapshot = world.board.snapshots["a"]
    assert (snapshot.taken_at_seconds, snapshot.duration_seconds) == (10.5, 0.5)


def test_what_changes_is_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "speech.triton")

    async def watch() -> None:
        async with world.polled() as poller:
            await poller.poll()
            world.a.statistics.refused = frozenset({"ModelStatistics"})
            await poller.poll()
            await poller.poll()
            world.a.statistics.refused = frozenset()
            await poller.poll()

    asyncio.run(watch())

    down, again = caplog.records
    assert down.getMessage() == "triton.no_statistics"
    assert fields_of(down)["replica"] == "a"
    assert fields_of(down)["error"] == "misconfigured"
    assert "need a key that the gateway does not send" in fields_of(down)["detail"]
    assert again.getMessage() == "triton.statistics_again"
    assert fields_of(again) == {"replica": "a"}


def fields_of(record: logging.LogRecord) -> dict[str, str]:
    return getattr(record, "fields", {})


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [("<html>", 200, "could not parse <html>"), ("", 500, "500 Internal Server Error")],
)
def test_a_metrics_page_that_is_none_is_logged(
    world: World, caplog: pytest.LogCaptureFixture, text: str, status: int, words: str
) -> None:
    with FakeMetricsPage(text) as page:
        page.status = status
        world.page_of_a = page.address

        snapshots = world.poll()

    [record] = caplog.records
    assert record.getMessage() == "triton.no_metrics_page"
    assert fields_of(record)["replica"] == "a"
    assert page.address in fields_of(record)["detail"]
    assert words in fields_of(record)["detail"]
    assert snapshots["a"].statistics is not None
