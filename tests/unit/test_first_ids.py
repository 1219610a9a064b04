"""How many ids the first sound is made of: from the front to the language model's first message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from fakes.spark import TOKENS, listen, mark, speech
from fakes.spark import FakeStages as FakeModels
from fakes.stages import LLM_INPUTS, Behaviour, FakeStages
from speech_backend.pipeline import SparkSpeaker
from speech_backend.prompts import Prompter
from speech_backend.stages import Sampling
from speech_backend.windows import WindowPlan
from speech_wire import GenerationRequest, SynthesisRequest

if TYPE_CHECKING:
    from fakes.near import NearStages

VOICE = np.arange(32, dtype=np.int32)
OPEN, END = mark("start_semantic_token"), mark("im_end")
SPEECH = [*speech(range(1000, 1200)), END]
MADE = [*TOKENS.global_codes.ids(VOICE).tolist(), OPEN]
REFERENCE = {
    "reference_text": "I said.",
    "global_tokens": VOICE,
    "semantic_tokens": np.arange(5, dtype=np.int32),
}


@pytest.mark.parametrize(
    ("request_", "before", "expected"),
    [
        (SynthesisRequest("Hello.", **REFERENCE), [], 22),  # type: ignore[arg-type]
        (SynthesisRequest("Hello.", global_tokens=VOICE), [OPEN], 23),
        (SynthesisRequest("Hello.", gender="male"), MADE, 22 + 39),
    ],
    ids=["continued", "cloned", "made up"],
)
def test_the_front_says_what_its_first_window_needs(
    request_: SynthesisRequest, before: list[int], expected: int
) -> None:
    models = FakeModels([*before, *SPEECH], group=1)
    prompter = Prompter(TOKENS, lambda text: list(text.encode()))
    plan = WindowPlan(look_ahead=10, first_chunk=12, min_chunk=12)

    listen(SparkSpeaker(models, TOKENS, prompter, 4096, plan).synthesize(request_, models.clock))

    assert [sampling.first_ids for sampling in models.samplings] == [expected]


@pytest.mark.parametrize("knows", [True, False])
def test_only_a_model_that_knows_of_it_is_told(
    far: FakeStages, stages: NearStages, *, knows: bool
) -> None:
    inputs = dict(LLM_INPUTS, first_ids=LLM_INPUTS["end_id"]) if knows else LLM_INPUTS
    far.behaviour = Behaviour(llm_inputs=dict(inputs))

    stream = stages.stream_tokens(np.array([5], np.int32), Sampling(40, (9,), first_ids=22))
    while stream.read(10) is not None:
        pass
    stream.close()

    [(_, _, sent)] = far.requests
    assert sent.get("first_ids", np.zeros(0)).tolist() == ([[22]] if knows else [])


@pytest.mark.parametrize(("sent", "read"), [({}, 0), ({"first_ids": [[22]]}, 22)])
def test_the_contract_has_it_as_a_number(sent: dict[str, list[list[int]]], read: int) -> None:
    tensors = {
        "input_ids": np.array([[5]], np.int32),
        "input_lengths": np.array([[1]], np.int32),
        "request_output_len": np.array([[9]], np.int32),
        **{name: np.array(value, np.int32) for name, value in sent.items()},
    }

    assert GenerationRequest.from_tensors(tensors).first_ids == read
