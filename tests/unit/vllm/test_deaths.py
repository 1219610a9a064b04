"""What becomes of requests when vLLM's engine dies, and of the engine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import fakes
from fakes.vllm import AsyncLLM
from fakes.vllm_model import PARAMETERS, expected, request, until, whole
from speech_backend.vllm_engine.live import EngineDownError
from speech_backend.vllm_engine.model import VllmModel

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("reason", ["abort", "error"])
async def test_an_end_that_nobody_asked_for_is_a_failure(
    model: VllmModel, engine: AsyncLLM, reason: str
) -> None:
    engine.ends_with = reason

    with pytest.raises(RuntimeError, match=f"the engine ended it as '{reason}'"):
        await whole(model, request())


async def test_a_dead_engine_fails_its_requests_at_once_and_is_replaced(
    model: VllmModel, engine: AsyncLLM, given_up: list[bool]
) -> None:
    engine.is_held = True
    tasks = [asyncio.create_task(whole(model, request(n))) for n in range(6)]
    await until(lambda: len(engine.waiting) == 6)
    engine.step()

    engine.die()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    with pytest.raises(EngineDownError, match="is being started again"):
        await whole(model, request())
    await until(lambda: len(AsyncLLM.started) == 2 and model.figures.restarts == 1)
    await until(lambda: is_up(model))
    again = await whole(model, request())

    assert {type(error) for error in ended} == {EngineDownError}
    assert again == expected(request())
    assert engine.is_shut
    assert not given_up


def is_up(model: VllmModel) -> bool:
    with suppress(EngineDownError):
        return model.live.get() is not None
    return False


async def test_a_death_that_nobody_was_there_for_is_noticed(
    model: VllmModel, engine: AsyncLLM
) -> None:
    await model.live.check()
    engine.die()

    await model.live.check()

    with pytest.raises(EngineDownError):
        model.live.get()
    assert model.figures.restarts == 1


async def test_where_no_other_engine_starts_the_process_is_given_up(
    model: VllmModel, engine: AsyncLLM, given_up: list[bool]
) -> None:
    AsyncLLM.start_errors.append(RuntimeError("Engine core initialization failed."))
    engine.die()

    await model.live.check()
    await until(lambda: given_up)

    assert len(AsyncLLM.started) == 1
    with pytest.raises(EngineDownError):
        await whole(model, request())


async def test_an_engine_that_does_not_start_is_an_error() -> None:
    AsyncLLM.start_errors.append(RuntimeError("Engine core initialization failed."))

    with pytest.raises(RuntimeError, match="initialization failed"):
        await VllmModel(PARAMETERS).live.open()


async def test_closing_waits_for_an_engine_that_is_being_started(
    model: VllmModel, engine: AsyncLLM
) -> None:
    engine.die()
    await model.live.check()

    await model.live.close()

    assert [started.is_shut for started in AsyncLLM.started] == [True, True]


async def test_nothing_is_looked_after_while_there_is_no_engine(
    model: VllmModel, engine: AsyncLLM, given_up: list[bool]
) -> None:
    AsyncLLM.start_errors.append(RuntimeError("no"))
    engine.die()
    await model.live.check()
    await until(lambda: given_up)

    await model.live.check()

    assert model.figures.restarts == 1


def test_an_engine_ends_with_the_process_that_started_it() -> None:
    """Whatever ended that: an engine that lived on would keep the GPU's memory."""
    folder = Path(fakes.__file__).parent
    command = [sys.executable, str(folder / "owned_engine.py")]
    environment = {**os.environ, "PYTHONPATH": str(folder.parent)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid, *words = owner.stdout.readline().split()
        engine = psutil.Process(int(pid))

        owner.kill()

        engine.wait(10)
    assert words == ["AllowedIds"]
