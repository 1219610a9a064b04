"""The far side and the service, for every test that wants them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from fakes.service import RunningService
from fakes.triton import FakeTriton

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def _plain_environment() -> Iterator[None]:
    """Keep the developer's own settings and proxies out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("SPEECH_")]:
            patch.delenv(name)
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield


@pytest.fixture
def triton() -> Iterator[FakeTriton]:
    """Give a fake Triton that speaks three chunks until a test scripts it."""
    with FakeTriton() as fake:
        yield fake


@pytest.fixture
def service(triton: FakeTriton) -> Iterator[RunningService]:
    """Give the service in front of `triton`, with default settings."""
    with RunningService(triton) as running:
        yield running
