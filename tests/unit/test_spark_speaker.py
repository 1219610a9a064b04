from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from engine.fixture.vocabulary import write_tokenizer
from fakes.spark import FakeStages, listen
from speech_backend.prompts import TooLongError
from speech_backend.spark import load_speaker
from speech_backend.tokens import TokenMap
from speech_wire import SynthesisRequest

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = SynthesisRequest("The sea was calm.", global_tokens=np.arange(32, dtype=np.int32))


WINDOWS = {"look_ahead": "67", "first_chunk": "25"}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TokenMap]:
    folder = tmp_path_factory.mktemp("checkpoint")
    (folder / "LLM").mkdir()
    return folder, TokenMap.from_vocabulary(write_tokenizer(folder / "LLM", full=False))


def test_the_speaker_reads_the_checkpoints_tokenizer(checkpoint: tuple[Path, TokenMap]) -> None:
    folder, tokens = checkpoint
    stages = FakeStages([*tokens.semantic_codes.ids(range(90)).tolist(), tokens.stop_ids[0]])
    parameters = {"model_dir": str(folder), "max_sequence_tokens": "4000", **WINDOWS}

    speaker = load_speaker(stages, parameters)
    chunks = listen(speaker.synthesize(REQUEST, stages.clock))

    assert sum(len(chunk.samples) for chunk in chunks) == 90 * 320
    (prompt,) = stages.prompts
    assert prompt[0] == tokens.marks["task_tts"]
    assert prompt[-1] == tokens.marks["end_global_token"]
    assert len(prompt) < 4 + 32 + len(REQUEST.target_text) + 2


def test_the_longest_sequence_is_what_the_configuration_says(
    checkpoint: tuple[Path, TokenMap],
) -> None:
    stages = FakeStages([])
    parameters = {"model_dir": str(checkpoint[0]), "max_sequence_tokens": "100", **WINDOWS}
    speaker = load_speaker(stages, parameters)

    with pytest.raises(TooLongError, match="the model holds 100"):
        listen(speaker.synthesize(REQUEST, stages.clock))
