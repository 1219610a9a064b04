"""Messages of a language model that cannot be used, while it writes on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fakes.stages import Behaviour, FakeStages, Pause, Spoiled, Wrote
from speech_backend.loopback import StageError
from speech_backend.stages import Sampling

if TYPE_CHECKING:
    from fakes.near import NearStages, NearStream

PROMPT = np.array([5, 6, 7], np.int32)
SAMPLING = Sampling(max_new_tokens=40, stop_ids=(9, 8))
IDS = np.array([[[1, 2]]], np.int32)
NO_LENGTH = np.zeros((1, 0), np.int32)
LONG_SECONDS = 5.0


def read_to_failure(stream: NearStream) -> tuple[list[int], StageError]:
    written: list[int] = []
    try:
        while True:
            written += stream.read(LONG_SECONDS).tolist()
    except StageError as error:
        return written, error


@pytest.mark.parametrize(
    ("spoiled", "words"),
    [
        (Wrote([1], request_id="7"), "answered request '7' instead of"),
        (Spoiled({"output_ids": IDS}), r"\['output_ids'\], without 'sequence_length'"),
        (
            Spoiled({"output_ids": IDS, "sequence_length": NO_LENGTH}),
            r"model 'llm' wrote what cannot be read: IndexError\(.*out of bounds",
        ),
        (
            Spoiled({"output_ids": IDS}, loses_bytes=True),
            r"model 'llm' wrote what cannot be read: ValueError\(.*shorter",
        ),
    ],
    ids=["another's answer", "no length", "an empty length", "no bytes"],
)
def test_a_model_whose_message_cannot_be_used_is_stopped_and_not_cut(
    far: FakeStages, stages: NearStages, spoiled: Any, words: str
) -> None:
    far.behaviour = Behaviour([Wrote([1]), spoiled, Pause(), Wrote([2])])
    stream = stages.stream_tokens(PROMPT, SAMPLING)

    written, error = read_to_failure(stream)
    stream.close()

    assert written == [1]
    assert re.search(words, str(error))
    assert far.ended.wait()
    assert (far.stopped.count, far.cut.count) == (1, 0)


def test_what_follows_a_message_that_cannot_be_used_is_not_taken_for_its_place(
    far: FakeStages, stages: NearStages
) -> None:
    far.behaviour = Behaviour(
        [Wrote([1]), Wrote([2], request_id="7"), Wrote([3])], obeys_stop=False
    )
    stream = stages.stream_tokens(PROMPT, SAMPLING)
    stream.join()

    written, error = read_to_failure(stream)
    stream.close()

    assert written == [1]
    assert "answered request '7'" in str(error)
