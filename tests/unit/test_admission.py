"""Permits: as many as there are, a bounded wait for the next, none lost."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import anyio
import pytest

from gateway.errors import OverloadedError
from gateway.speech.admission import Admission

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def hold(admission: Admission, entered: asyncio.Event, leave: asyncio.Event) -> None:
    """Take a permit, say so, and give it back when told."""
    async with admission.permit():
        entered.set()
        await leave.wait()


async def settled() -> None:
    """Let everything run that can run now."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_as_many_as_there_are_permits_come_in_at_once() -> None:
    admission = Admission(3, 0)

    async with AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(admission.permit())

        assert admission.in_flight == 3
    assert admission.in_flight == 0


async def test_the_next_is_refused_after_the_wait_with_the_number_and_the_setting() -> None:
    admission = Admission(1, 0.01)

    async with admission.permit():
        with pytest.raises(OverloadedError, match=r"all 1 .*0\.01 s.*SPEECH_MAX_CONCURRENT") as no:
            await admission.permit().__aenter__()

    assert no.value.status == 429
    assert admission.in_flight == 0


async def test_who_waits_comes_in_when_a_permit_comes_free() -> None:
    admission = Admission(1, 10)
    first_in, second_in, leave = asyncio.Event(), asyncio.Event(), asyncio.Event()
    first = asyncio.create_task(hold(admission, first_in, leave))
    second = asyncio.create_task(hold(admission, second_in, leave))
    await settled()
    has_waited = first_in.is_set() and not second_in.is_set()

    leave.set()
    await asyncio.wait_for(asyncio.gather(first, second), 10)

    assert has_waited
    assert second_in.is_set()
    assert admission.in_flight == 0


async def test_who_leaves_the_queue_takes_no_permit_along() -> None:
    admission = Admission(1, 10)
    entered, leave = asyncio.Event(), asyncio.Event()
    async with admission.permit():
        waiting = asyncio.create_task(hold(admission, entered, leave))
        await settled()
        waiting.cancel()
        await asyncio.wait({waiting})

    async with admission.permit():
        assert admission.in_flight == 1
    assert not entered.is_set()


async def test_who_leaves_at_the_moment_of_admission_takes_no_permit_along() -> None:
    admission = Admission(1, 10)
    entered, leave = asyncio.Event(), asyncio.Event()
    async with admission.permit():
        waiting = asyncio.create_task(hold(admission, entered, leave))
        await settled()
    waiting.cancel()
    await asyncio.wait({waiting})

    with anyio.fail_after(10):
        async with admission.permit():
            assert admission.in_flight == 1


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
async def test_a_permit_comes_back_however_its_holder_ends(error: type[BaseException]) -> None:
    admission = Admission(1, 0)

    with pytest.raises(error):
        async with admission.permit():
            raise error

    async with admission.permit():
        assert admission.in_flight == 1
    assert admission.in_flight == 0


async def test_nobody_overtakes_who_waits() -> None:
    admission = Admission(1, 10)
    order: list[int] = []

    async def come(number: int) -> None:
        async with admission.permit():
            order.append(number)

    async with admission.permit():
        tasks = [asyncio.create_task(come(number)) for number in range(5)]
        await settled()
    await asyncio.gather(*tasks)

    assert order == [0, 1, 2, 3, 4]
