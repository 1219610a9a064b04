from __future__ import annotations

import json
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


@pytest.mark.parametrize(
    ("made_for", "given", "expected"),
    [(8192, None, "8192"), (8192, 8192, "8192"), (32768, None, "16384"), (32768, 32768, "32768")],
)
@pytest.mark.parametrize("llm", ["transformers", "vllm"])
def test_a_sequence_is_as_long_as_the_model_was_made_for(
    checkpoint: Path, llm: str, made_for: int, given: int | None, expected: str
) -> None:
    path = checkpoint / "LLM" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"max_position_embeddings": made_for}), encoding="utf-8")
    site = Site(checkpoint, llm=llm, device="cuda", max_sequence_tokens=given)

    *_, front = find_specs("spark_tts", site)

    assert front.parameters["max_sequence_tokens"] == expected
    with pytest.raises(
        EngineError, match=f"is {made_for + 1}, the language model in .* {made_for}"
    ):
        find_specs("spark_tts", Site(checkpoint, max_sequence_tokens=made_for + 1))
