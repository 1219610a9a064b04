"""Stages behind gRPC, for the tests of those who call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fakes.near import NearStages
from fakes.stages import FakeStages

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def far() -> Iterator[FakeStages]:
    with FakeStages() as fake:
        yield fake


@pytest.fixture
def stages(far: FakeStages) -> Iterator[NearStages]:
    near = NearStages(far.address)
    yield near
    near.close()
