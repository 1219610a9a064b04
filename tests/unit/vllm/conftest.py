"""A model whose engine is the scripted one."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from fakes.spark import FakeClock
from fakes.vllm import AsyncLLM
from fakes.vllm_model import PARAMETERS
from speech_backend.vllm_engine.model import VllmModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _far() -> Iterator[None]:
    before = dict(os.environ)
    yield
    AsyncLLM.started.clear()
    AsyncLLM.start_errors.clear()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def given_up() -> list[bool]:
    return []


@pytest.fixture
async def model(given_up: list[bool]) -> AsyncIterator[VllmModel]:
    """Give a model whose engine runs; its pauses are a look at the other tasks."""
    made = VllmModel(
        PARAMETERS, FakeClock(), lambda *_: asyncio.sleep(0), lambda: given_up.append(True)
    )
    await made.live.open()
    yield made
    await made.live.close()


@pytest.fixture
def engine(model: VllmModel) -> AsyncLLM:
    engine: AsyncLLM = model.live.get()
    return engine
