"""Permits: as many as there are, a bounded wait for the next, none lost; limits of a caller."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import anyio
import pytest

from fakes.clock import Clock
from gateway.errors import OverloadedError
from gateway.speech.admission import Admission, Limits

pytestmark = pytest.mark.anyio
LONG = 10.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def make(
    permits: int,
    wait_seconds: float,
    *,
    max_waiting: int = 64,
    concurrent: int | None = None,
    per_minute: int | None = None,
    clock: Clock | None = None,
) -> Admission:
    limits = Limits(permits, wait_seconds, max_waiting, concurrent, per_minute)
    return Admission(limits, clock or Clock())


async def hold(admission: Admission, entered: asyncio.Event, leave: asyncio.Event) -> None:
    """Take a permit, say so, and give it back when told."""
    async with admission.permit("anyone"):
        entered.set()
        await leave.wait()


async def visit(admission: Admission, caller: str = "anyone") -> None:
    """Take a permit and give it back at once."""
    async with admission.permit(caller):
        pass


async def refused(admission: Admission, caller: str = "anyone") -> OverloadedError:
    """Ask for a permit that there is none of; return why."""
    with pytest.raises(OverloadedError) as no:
        await visit(admission, caller)
    return no.value


async def settled() -> None:
    """Let everything run that can run now."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_as_many_as_there_are_permits_come_in_at_once() -> None:
    admission = make(3, 0)

    async with AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(admission.permit("anyone"))

        assert admission.in_flight == 3
    assert admission.in_flight == 0


async def test_the_next_is_refused_after_the_wait_with_the_number_and_the_setting() -> None:
    admission = make(1, 0.01)

    async with admission.permit("anyone"):
        error = await refused(admission)

    assert error.status == 429
    assert (error.reason, error.code) == ("wait_exceeded", "overloaded")
    assert "all 1 streams are busy and none came free within 0.01 s" in error.message
    assert "SPEECH_MAX_CONCURRENT_REQUESTS" in error.message
    assert (admission.in_flight, admission.waiting) == (0, 0)


def test_the_wait_is_no_longer_than_the_bound() -> None:
    """On a loop whose clock jumps to whatever is due next."""

    class JumpingLoop(asyncio.SelectorEventLoop):
        now = 0.0

        def time(self) -> float:
            return self.now

        def _run_once(self) -> None:
            if not self._ready and self._scheduled:  # type: ignore[attr-defined]
                self.now = max(self.now, self._scheduled[0].when())  # type: ignore[attr-defined]
            super()._run_once()  # type: ignore[misc]

    async def wait_in_vain() -> float:
        admission = make(1, 2.5)
        async with admission.permit("anyone"):
            await refused(admission)
        return asyncio.get_running_loop().time()

    loop = JumpingLoop()
    try:
        assert loop.run_until_complete(wait_in_vain()) == pytest.approx(2.5)
    finally:
        loop.close()


async def test_who_waits_comes_in_when_a_permit_comes_free() -> None:
    admission = make(1, LONG)
    first_in, second_in, leave = asyncio.Event(), asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(hold(admission, first_in, leave))
    second = asyncio.create_task(hold(admission, second_in, leave))
    await settled()
    has_waited = first_in.is_set() and not second_in.is_set() and admission.waiting == 1

    leave.set()
    await asyncio.wait_for(asyncio.gather(first, second), LONG)

    assert has_waited
    assert second_in.is_set()
    assert (admission.in_flight, admission.waiting) == (0, 0)


async def test_who_leaves_the_queue_takes_no_permit_along() -> None:
    admission = make(1, LONG)
    entered, leave = asyncio.Event(), asyncio.Event()
    async with admission.permit("anyone"):
        waiting = asyncio.create_task(hold(admission, entered, leave))
        await settled()
        waiting.cancel()
        await asyncio.wait({waiting})

        assert admission.waiting == 0
    async with admission.permit("anyone"):
        assert admission.in_flight == 1
    assert not entered.is_set()


async def test_who_leaves_at_the_moment_of_admission_takes_no_permit_along() -> None:
    admission = make(1, LONG)
    entered, leave = asyncio.Event(), asyncio.Event()
    async with admission.permit("anyone"):
        waiting = asyncio.create_task(hold(admission, entered, leave))
        await settled()
    waiting.cancel()
    await asyncio.wait({waiting})

    with anyio.fail_after(LONG):
        async with admission.permit("anyone"):
            assert admission.in_flight == 1


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
async def test_a_permit_comes_back_however_its_holder_ends(error: type[BaseException]) -> None:
    admission = make(1, 0, concurrent=1)

    with pytest.raises(error):
        async with admission.permit("anyone"):
            raise error

    async with admission.permit("anyone"):
        assert admission.in_flight == 1
    assert admission.in_flight == 0


async def test_nobody_overtakes_who_waits() -> None:
    admission = make(1, LONG)
    order: list[int] = []

    async def come(number: int) -> None:
        async with admission.permit("anyone"):
            order.append(number)

    async with admission.permit("anyone"):
        tasks = [asyncio.create_task(come(number)) for number in range(5)]
        await settled()
    late = asyncio.create_task(come(5))
    await asyncio.gather(*tasks, late)

    assert order == [0, 1, 2, 3, 4, 5]


async def test_a_full_queue_refuses_at_once_and_keeps_those_who_wait() -> None:
    admission = make(1, LONG, max_waiting=2)
    async with admission.permit("anyone"):
        waiting = [asyncio.create_task(visit(admission)) for _ in range(2)]
        await settled()

        error = await refused(admission)

        assert admission.waiting == 2
    await asyncio.gather(*waiting)
    assert error.reason == "queue_full"
    assert "2 requests wait for one already" in error.message
    assert "SPEECH_MAX_WAITING_REQUESTS" in error.message


async def test_a_queue_of_none_still_lets_in_who_need_not_wait() -> None:
    admission = make(1, LONG, max_waiting=0)

    async with admission.permit("anyone"):
        error = await refused(admission)
    await visit(admission)

    assert error.reason == "queue_full"


async def test_a_callers_limit_counts_running_and_waiting_and_hurts_nobody_else() -> None:
    admission = make(1, LONG, concurrent=2)
    async with admission.permit("greedy"):
        waiting = asyncio.create_task(visit(admission, "greedy"))
        await settled()

        error = await refused(admission, "greedy")
        modest = asyncio.create_task(visit(admission, "modest"))
        await settled()

        assert admission.waiting == 2
    await asyncio.gather(waiting, modest)
    assert (error.reason, error.code) == ("key_concurrency", "rate_limit_exceeded")
    assert "caller 'greedy' has 2 requests" in error.message
    assert "SPEECH_KEY_MAX_CONCURRENT_REQUESTS" in error.message
    await visit(admission, "greedy")


async def test_the_minute_slides_and_says_when_there_is_room_again() -> None:
    clock = Clock(100.0)
    admission = make(1, 0, per_minute=2, clock=clock)

    await visit(admission)
    clock.now = 130.0
    await visit(admission)
    clock.now = 140.0
    error = await refused(admission)
    clock.now = 159.75
    almost = await refused(admission)
    clock.now = 160.0
    await visit(admission)
    again = await refused(admission)

    assert (error.reason, error.code) == ("key_rate", "rate_limit_exceeded")
    assert "2 requests within a minute" in error.message
    assert "SPEECH_KEY_REQUESTS_PER_MINUTE" in error.message
    waits = [e.retry_after_seconds for e in (error, almost, again)]
    assert waits == [20.0, 0.25, 30.0]


async def test_each_caller_has_a_minute_of_his_own() -> None:
    admission = make(1, 0, per_minute=1)

    await visit(admission, "greedy")
    await refused(admission, "greedy")

    await visit(admission, "modest")


async def test_who_is_refused_at_the_door_has_not_used_up_his_minute() -> None:
    admission = make(1, LONG, max_waiting=0, per_minute=2)

    async with admission.permit("anyone"):
        errors = [await refused(admission) for _ in range(3)]
    await visit(admission)

    assert {error.reason for error in errors} == {"queue_full"}
