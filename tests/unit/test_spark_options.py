from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.catalogue import find_specs
from engine.errors import EngineError
from engine.site import Site
from fakes.checkpoint import write_checkpoint

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Give a folder with the files that a checkpoint needs."""
    write_checkpoint(tmp_path)
    return tmp_path


def test_windows_can_be_heard_earlier(checkpoint: Path) -> None:
    *_, front = find_specs("spark_tts", Site(checkpoint, look_ahead=10, first_chunk=8))

    assert (front.parameters["look_ahead"], front.parameters["first_chunk"]) == ("10", "8")
    for site, words in (
        (Site(checkpoint, look_ahead=68), "--look-ahead is 68, allowed are 1 to 67"),
        (Site(checkpoint, first_chunk=251), "--first-chunk is 251, allowed are 1 to 250"),
    ):
        with pytest.raises(EngineError, match=words):
            find_specs("spark_tts", site)


def test_half_precision_is_the_vocoders_alone(checkpoint: Path) -> None:
    site = Site(checkpoint, device="cuda", dtype="float16", compile=True)

    llm, vocoder, *_ = find_specs("spark_tts", site)

    assert llm.parameters["dtype"] == "bfloat16"
    assert (vocoder.parameters["dtype"], vocoder.parameters["compile"]) == ("float16", "true")
