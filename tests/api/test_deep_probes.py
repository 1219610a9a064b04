"""Tritons that have to speak a word now and then, while others speak and while models go."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeAlias

from fakes.replicas import FAST, serve, wait_ready
from fakes.service import RunningService
from fakes.triton import FakeTriton, Gate, Hang, Script, tone

if TYPE_CHECKING:
    from collections.abc import Callable

Pair: TypeAlias = tuple[FakeTriton, FakeTriton]
OFTEN = FAST | {"deep_probe_interval_seconds": 0.05}
WORD = "Yes."
WAIT_SECONDS = 20.0


def wait_for(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while not happened():
        assert time.monotonic() < until


def words(triton: FakeTriton) -> int:
    return sum(said.target_text == WORD for said in triton.seen.requests)


def test_one_that_loses_its_models_while_it_speaks_a_word_is_probed_on() -> None:
    gate = Gate()
    with (
        FakeTriton(Script([gate, tone()]), models=("hibari", "spark")) as triton,
        RunningService(triton, models="hibari,spark", **OFTEN) as service,
    ):
        assert triton.seen.started.wait()
        triton.door.is_draining = True
        service.learn()
        gate.open()
        assert triton.seen.ended.wait()
        triton.door.is_draining = False

        wait_ready(service, triton)


def test_one_that_is_full_is_not_asked_for_a_word(triton: FakeTriton) -> None:
    triton.script = Script(by_text=lambda said: [tone()] if said.target_text == WORD else [Hang()])
    with RunningService(triton, replica_max_streams=1, **OFTEN) as service, closing(service.send()):
        service.wait_in_flight(1)
        wait_for(lambda: len(triton.seen.requests) > words(triton))
        asked, probes = words(triton), len(triton.door.metadata)
        wait_for(lambda: len(triton.door.metadata) > probes + 30)

        assert words(triton) == asked


def test_one_that_is_only_busy_is_not_ejected_for_a_late_word(pair: Pair) -> None:
    late, _ = pair

    def says(said: Any) -> list[Any]:
        return [Hang()] if said.target_text == WORD else [tone()]

    late.script = Script(by_text=says)
    with (
        serve(*pair, **OFTEN, first_audio_timeout_seconds=1.0) as service,
        ThreadPoolExecutor(8) as pool,
    ):
        wait_ready(service, *pair)
        while words(late) < 3:
            answers = pool.map(lambda _: service.say().status_code, range(16))
            assert set(answers) == {200}
        states = service.replicas()

    assert states[late.address]["ejections"] == 0
