"""Hundreds of listeners leave: nothing of them stays behind."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import anyio
import httpx
import pytest

from fakes.service import SAID, RunningService
from fakes.triton import FakeTriton, Hang, Script, Tally, tone

SPEECH = "/v1/audio/speech"
BATCH = 16
BATCHES = 32
SETTLE_SECONDS = 5.0
POOL_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""How many threads asyncio keeps for work that would hold up its loop."""
WAITER = ThreadPoolExecutor(1, thread_name_prefix="waiter")
"""One thread, so that the test itself adds none while it counts threads."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def happened(tally: Tally, count: int) -> bool:
    """Wait for a count without holding up this loop."""
    return await asyncio.get_running_loop().run_in_executor(WAITER, tally.wait, count)


async def leave_before_audio(client: httpx.AsyncClient, triton: FakeTriton) -> None:
    """Ask for a batch and hang up once all of it has reached the model."""
    expected = triton.seen.started.count + BATCH
    async with anyio.create_task_group() as group:
        for _ in range(BATCH):
            group.start_soon(lambda: client.post(SPEECH, json=SAID))
        assert await happened(triton.seen.started, expected)
        group.cancel_scope.cancel()


async def leave_mid_stream(client: httpx.AsyncClient, _: FakeTriton) -> None:
    """Ask for a batch and hang up on each after its first packet."""

    async def listen() -> None:
        async with client.stream("POST", SPEECH, json=SAID) as response:
            assert response.status_code == 200
            async for _ in response.aiter_raw():
                break

    async with anyio.create_task_group() as group:
        for _ in range(BATCH):
            group.start_soon(listen)


async def tasks() -> set[asyncio.Task[object]]:
    """Return the tasks of this loop but the one that asks."""
    return asyncio.all_tasks() - {asyncio.current_task()}


async def left_over(before: set[asyncio.Task[object]]) -> set[asyncio.Task[object]]:
    """Return the tasks that are new since `before` and do not end soon."""
    new = await tasks() - before
    return (await asyncio.wait(new, timeout=SETTLE_SECONDS))[1] if new else new


@pytest.mark.anyio
async def test_512_aborted_requests_leave_no_permit_stream_task_or_thread(
    triton: FakeTriton,
) -> None:
    with RunningService(triton, max_concurrent_requests=BATCH) as service:
        assert service.say().status_code == 200
        assert await happened(service.log.ended, 1)
        tasks_before, threads_before = service.in_loop(tasks()), set(threading.enumerate())

        async with httpx.AsyncClient(base_url=service.base_url, timeout=10) as client:
            for number in range(BATCHES):
                is_early = number % 2 == 0
                triton.script = Script([Hang()] if is_early else [tone(), Hang()])
                await (leave_before_audio if is_early else leave_mid_stream)(client, triton)
                ended = 1 + (number + 1) * BATCH
                assert await happened(service.log.ended, ended)

        assert triton.seen.cancelled.wait(BATCHES * BATCH)
        assert triton.seen.open_streams == 0
        assert service.figures() == {"finished": 1, "cancelled": BATCHES * BATCH, "in_flight": 0}
        assert not service.in_loop(left_over(tasks_before))
        assert len(set(threading.enumerate()) - threads_before) < POOL_THREADS
        triton.script = Script()
        assert service.say().status_code == 200
