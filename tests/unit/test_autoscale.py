"""How many Tritons are kept, and which one is asked to leave."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pytest

from engine.autoscale import Bounds, Load, Scaler, follow, read_loads
from engine.errors import EngineError
from fakes.modal_plane import FakeDict
from fakes.relay import Relay
from fakes.replicas import FAST
from fakes.service import RunningService
from fakes.triton import FakeTriton, Hang, Script

BOUNDS = Bounds(floor=1, ceiling=4, capacity=10, cool_down_seconds=300)
STEP_SECONDS = 10


class Cloud:
    """Keeps as many Tritons as it is told, and lets those go that were asked to, when idle."""

    def __init__(self, count: int = 1, bounds: Bounds = BOUNDS) -> None:
        self.now_seconds = 0.0
        self.kept: list[int] = []
        self.in_flight = {f"t{number}": 0 for number in range(count)}
        self.leaving = FakeDict()
        self._born = count
        self.scaler = Scaler(bounds, self._keep, self.leaving, lambda: self.now_seconds)

    def _keep(self, count: int) -> None:
        self.kept.append(count)
        while len(self.in_flight) < count:
            self.in_flight[f"t{self._born}"] = 0
            self._born += 1

    def pass_(self, seconds: float) -> None:
        """Step every ten seconds; who was asked to leave has left by the next step, if idle."""
        for _ in range(round(seconds / STEP_SECONDS)):
            self.scaler.step([Load(key, load, 10) for key, load in self.in_flight.items()])
            self.now_seconds += STEP_SECONDS
            for key in [key for key in self.leaving.content if self.in_flight.get(key) == 0]:
                del self.in_flight[key]
                self.leaving.pop(key)


def test_the_floor_is_kept_where_nothing_is_asked() -> None:
    cloud = Cloud(0, Bounds(2, 4, 10))

    cloud.pass_(1000)

    assert cloud.kept == [2]
    assert len(cloud.in_flight) == 2


@pytest.mark.parametrize(("in_flight", "count"), [(7, 1), (8, 2), (14, 2), (15, 3), (500, 4)])
def test_the_load_of_each_is_kept_below_seven_tenths(in_flight: int, count: int) -> None:
    assert BOUNDS.needed([Load("t0", in_flight, 10)]) == count


def test_it_grows_at_once() -> None:
    cloud = Cloud(1)
    cloud.pass_(10)
    cloud.in_flight["t0"] = 9

    cloud.pass_(10)

    assert cloud.kept == [1, 2]


def test_it_shrinks_one_by_one_after_the_cool_down() -> None:
    cloud = Cloud(1)
    cloud.in_flight["t0"] = 30
    cloud.pass_(20)
    assert cloud.kept == [4]  # 30 asks for five, the ceiling is four
    cloud.in_flight = dict.fromkeys(cloud.in_flight, 0)

    cloud.pass_(300)
    assert cloud.kept == [4]
    cloud.pass_(10)
    assert cloud.kept == [4, 3]
    cloud.pass_(310)
    assert cloud.kept == [4, 3, 2]
    cloud.pass_(5000)
    assert cloud.kept == [4, 3, 2, 1]
    assert len(cloud.in_flight) == 1
    assert cloud.leaving.content == {}


def test_a_busy_one_is_never_asked_to_leave() -> None:
    cloud = Cloud(3)
    cloud.in_flight = {"t0": 1, "t1": 1, "t2": 1}
    cloud.pass_(2000)
    assert (cloud.kept, cloud.leaving.content) == ([3], {})

    cloud.in_flight["t1"] = 0
    cloud.pass_(10)

    assert cloud.kept == [3, 2]
    assert set(cloud.in_flight) == {"t0", "t2"}


def test_a_short_lull_changes_nothing() -> None:
    cloud = Cloud(2)
    for _ in range(20):
        cloud.in_flight = {"t0": 0, "t1": 0}
        cloud.pass_(200)
        cloud.in_flight = {"t0": 7, "t1": 7}
        cloud.pass_(20)

    assert cloud.kept == [2]


def test_one_more_than_is_wanted_leaves_too() -> None:
    """A platform that starts a container for an input that came back makes one too many."""
    cloud = Cloud(1)
    cloud.pass_(10)
    cloud.in_flight["extra"] = 0

    cloud.pass_(320)

    assert cloud.kept == [1]
    assert len(cloud.in_flight) == 1


def test_those_that_never_came_are_no_longer_wanted() -> None:
    cloud = Cloud(1)
    cloud.in_flight["t0"] = 30
    cloud.pass_(10)
    cloud.in_flight = {"t0": 1}

    cloud.pass_(320)

    assert cloud.kept == [4, 1]
    assert cloud.leaving.content == {}


@pytest.mark.parametrize(("floor", "ceiling"), [(0, 1), (3, 2)])
def test_bounds_that_nothing_fits_into_are_refused(floor: int, ceiling: int) -> None:
    with pytest.raises(EngineError, match=f"{floor} to {ceiling}"):
        Bounds(floor, ceiling, 10)


def test_the_loads_are_those_that_the_gateway_has(triton: FakeTriton) -> None:
    triton.script = Script([Hang()])
    with RunningService(triton, replica_max_streams=7) as service, closing(service.send()):
        service.wait_in_flight(1)
        loads = read_loads(f"{service.base_url}/")

    assert loads == [Load(triton.address, 1, 7)]


def test_a_gateway_that_wants_a_key_gets_it(triton: FakeTriton) -> None:
    key = "correct-horse"
    with RunningService(triton, api_keys=key, open_without_key="") as service:
        with pytest.raises(EngineError, match=r"/v1/replicas does not tell the loads: .*401"):
            read_loads(service.base_url)

        assert [load.key for load in read_loads(service.base_url, key)] == [triton.address]


def states(service: RunningService) -> list[tuple[str, int]]:
    rows = service.client.get("/v1/replicas").json()["replicas"]
    return [(row["state"], row["in_flight"]) for row in rows]


def test_old_streams_behind_a_new_connection_make_a_triton_busy(triton: FakeTriton) -> None:
    """The gateway has two rows of it then, and the one of the new connection has no streams."""
    triton.script = Script([Hang()])
    settings = FAST | {"probe_timeout_seconds": 0.2, "first_audio_timeout_seconds": 60.0}
    with Relay(triton.address) as relay, RunningService(relay.address, **settings) as service:
        service.wait_state(relay.address, "ready")
        with closing(service.send()):
            assert triton.seen.started.wait()
            relay.strand()
            until = time.monotonic() + 20
            while (found := states(service)) != [("ready", 0), ("draining", 1)]:
                assert time.monotonic() < until, found
            loads = read_loads(service.base_url)

    assert loads == [Load(relay.address, 1, 16)]


def test_what_the_platform_refuses_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    refusals, kept = [ConnectionError("no route to Modal")], []

    def keep(count: int) -> None:
        if refusals:
            raise refusals.pop()
        kept.append(count)

    over = iter((False, False, True))
    follow(Scaler(BOUNDS, keep, FakeDict()), lambda: [Load("t0", 9, 10)], lambda: next(over))

    assert kept == [2]
    assert "no route to Modal" in caplog.text


def test_what_cannot_be_read_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    cloud = Cloud(2)
    answers: list[Any] = [[Load("t0", 5, 10), Load("t1", 5, 10)], EngineError("no gateway")]
    over = iter((False, False, True))

    def read() -> list[Load]:
        answer = answers.pop(0)
        if isinstance(answer, EngineError):
            raise answer
        return answer  # type: ignore[no-any-return]

    follow(cloud.scaler, read, lambda: next(over))

    assert cloud.kept == [2]
    assert "autoscale.blind" in caplog.text
