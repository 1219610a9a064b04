"""Random checkpoints, written once for all tests of Spark-TTS's models."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from engine.fixture import write_checkpoint
from engine.fixture.bicodec import write_bicodec

if TYPE_CHECKING:
    from pathlib import Path

# The other environments have no torch: `make test-spark` and `make parity` run these.
collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a checkpoint's BiCodec folder with narrow layers."""
    folder = tmp_path_factory.mktemp("tiny") / "BiCodec"
    write_bicodec(folder, "tiny", seed=1)
    return folder


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a whole checkpoint with narrow layers."""
    folder = tmp_path_factory.mktemp("checkpoint") / "spark"
    write_checkpoint(folder, "tiny", seed=1)
    return folder
