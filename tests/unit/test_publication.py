"""The entry of a Triton in a registry, as a gateway reads it."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from engine.publication import BEAT_SECONDS, STILL_SECONDS, STOP_SECONDS, Place, Publication, beats
from fakes.modal_plane import FakeDict
from gateway.backend.addresses import Defaults
from gateway.backend.discovery.modal_dict import ModalDictReader
from gateway.settings import Settings

PLACE = Place("r3.modal.host:443", "system", 8)
OFTEN_SECONDS = 0.01


def publication(registry: FakeDict, *wanted: bool, every: float = OFTEN_SECONDS) -> Publication:
    """Return one that is wanted as often as said, then as the last time."""
    said = list(wanted or (True,))
    times = iter(range(10_000))
    return Publication(
        registry, "ta-1", lambda: said.pop(0) if said[1:] else said[0], every, lambda: next(times)
    )


def read(registry: FakeDict) -> Any:
    return asyncio.run(ModalDictReader(registry, Defaults(tls="system"), 45).read())


def test_a_gateway_reads_what_an_engine_writes() -> None:
    registry = FakeDict()
    raw = Place("r3.modal.host:41234", "private", 4, "triton.internal")
    ours = publication(registry, every=100)
    ours.begin(PLACE)
    (address,) = read(registry)

    assert (address.id, address.target, address.tls) == ("ta-1", "r3.modal.host:443", "system")
    assert (address.capacity, address.server_name, address.metadata) == (8, "", ())
    ours.withdraw()
    assert read(registry) == ()

    theirs = publication(registry, every=100)
    theirs.begin(raw)
    (address,) = asyncio.run(ModalDictReader(registry, Defaults(tls="private"), 45).read())
    assert (address.tls, address.server_name) == ("private", "triton.internal")
    theirs.withdraw()


def test_the_heartbeat_moves_until_it_is_withdrawn() -> None:
    registry = FakeDict()
    ours = publication(registry)
    ours.begin(PLACE)
    registry.wait(lambda content: json.loads(content["ta-1"])["heartbeat"] >= 3)

    ours.withdraw()
    ours.withdraw()

    assert registry.content == {}


def test_what_is_no_longer_wanted_withdraws_itself() -> None:
    registry = FakeDict()
    publication(registry, True, False).begin(PLACE)

    registry.wait(lambda content: content == {})


def test_a_registry_that_is_away_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    registry = FakeDict()
    failed = FakeDict()

    def wanted() -> bool:
        # In the beating thread, before each beat: the first one fails.
        registry.broken = not failed.content
        failed.put("one", value=True)
        return True

    times = iter(range(10_000))
    ours = Publication(registry, "ta-1", wanted, OFTEN_SECONDS, lambda: next(times))
    ours.begin(PLACE)
    registry.wait(lambda content: json.loads(content["ta-1"])["heartbeat"] >= 3)
    ours.withdraw()

    assert "publication.beat_failed" in caplog.text


def test_a_registry_that_is_away_at_the_start_is_an_error() -> None:
    registry = FakeDict()
    registry.broken = True

    with pytest.raises(ConnectionError):
        publication(registry).begin(PLACE)


def test_a_registry_that_hangs_holds_up_no_end() -> None:
    """Modal kills after 30 s, and what is in flight needs most of them."""
    registry, may_go_on = FakeDict(), threading.Event()
    pop = registry.pop

    def hang(*given: Any) -> Any:
        may_go_on.wait()
        return pop(*given)

    registry.pop = hang  # type: ignore[method-assign]
    ours = publication(registry, every=100)
    ours.begin(PLACE)
    ending = threading.Thread(target=ours.withdraw)
    ending.start()
    ending.join(STOP_SECONDS + 5)
    has_ended = not ending.is_alive()
    may_go_on.set()

    assert has_ended
    registry.wait(lambda content: content == {})


def test_an_entry_lives_while_its_heartbeat_moves() -> None:
    registry = FakeDict()
    registry.put("ta-1", '{"heartbeat": 1}')
    waits = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            registry.put("ta-1", '{"heartbeat": 2}')

    assert beats(registry, "ta-1", wait)
    assert len(waits) == 3
    assert "ta-1" in registry.content


def test_an_entry_that_stands_still_is_taken_away() -> None:
    """Modal gives a crashed container's input back, and its entry would have it held for ever."""
    registry, waits = FakeDict(), []
    registry.put("ta-1", '{"heartbeat": 1}')

    assert not beats(registry, "ta-1", waits.append)
    assert not beats(registry, "ta-1", waits.append)
    assert registry.content == {}
    assert sum(waits) == STILL_SECONDS


def test_one_that_withdraws_meanwhile_does_not_live() -> None:
    registry = FakeDict()
    registry.put("ta-1", '{"heartbeat": 1}')

    assert not beats(registry, "ta-1", lambda _: registry.pop("ta-1"))


def test_four_beats_go_into_what_gateways_wait() -> None:
    assert Settings(_env_file=None).discovery_stale_seconds == STILL_SECONDS >= 4 * BEAT_SECONDS
