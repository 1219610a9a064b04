"""A language model is held to speech where the voice is given, from the front to the contract."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fakes.spark import TOKENS, listen, mark, speech
from fakes.spark import FakeStages as FakeModels
from fakes.stages import LLM_INPUTS, Behaviour, FakeStages
from speech_backend.limits import check_generation
from speech_backend.pipeline import SparkSpeaker
from speech_backend.prompts import Prompter
from speech_backend.serving import InvalidInputError
from speech_backend.stages import Sampling
from speech_wire import ContractError, GenerationRequest, SynthesisRequest

if TYPE_CHECKING:
    from fakes.near import NearStages

VOICE = np.arange(32, dtype=np.int32)
OPEN, END = mark("start_semantic_token"), mark("im_end")
CODES = list(range(1000, 1200))
SAMPLING = Sampling(40, (9,), allowed_ids=((3, 5), (9, 9)))


def allowed(request: SynthesisRequest, written: list[int]) -> set[int]:
    """Return all ids that the language model may write for this request."""
    models = FakeModels(written)
    speaker = SparkSpeaker(models, TOKENS, Prompter(TOKENS, lambda text: list(text.encode())), 4096)
    listen(speaker.synthesize(request, models.clock))
    return {
        token_id
        for first, last in models.samplings[0].allowed_ids
        for token_id in range(first, last + 1)
    }


def test_a_cloned_voice_opens_its_speech_speaks_and_ends() -> None:
    clone = SynthesisRequest("Hello.", global_tokens=VOICE)

    ids = allowed(clone, [OPEN, *speech(CODES), END])

    assert ids == {OPEN, *speech(range(8192)), *TOKENS.stop_ids}


def test_after_a_transcript_there_is_only_speech_and_its_end() -> None:
    request = SynthesisRequest(
        "Hello.",
        reference_text="I said.",
        global_tokens=VOICE,
        semantic_tokens=np.arange(5, dtype=np.int32),
    )

    ids = allowed(request, [*speech(CODES), END])

    assert ids == {*speech(range(8192)), *TOKENS.stop_ids}


def test_who_makes_a_voice_may_write_anything() -> None:
    made = [*TOKENS.global_codes.ids(VOICE).tolist(), OPEN, *speech(CODES), END]

    assert allowed(SynthesisRequest("Hello.", gender="male"), made) == set()


@pytest.mark.parametrize("knows", [True, False])
def test_only_a_model_that_knows_of_them_is_told(
    far: FakeStages, stages: NearStages, *, knows: bool
) -> None:
    inputs = dict(LLM_INPUTS, allowed_ids=LLM_INPUTS["input_ids"]) if knows else LLM_INPUTS
    far.behaviour = Behaviour(llm_inputs=dict(inputs))

    for sampling in (SAMPLING, replace(SAMPLING, allowed_ids=())):
        stream = stages.stream_tokens(np.array([5], np.int32), sampling)
        while stream.read(10) is not None:
            pass
        stream.close()

    sent = [tensors.get("allowed_ids") for _, _, tensors in far.requests]
    assert [None if array is None else array.tolist() for array in sent] == [
        [[[3, 5], [9, 9]]] if knows else None,
        None,
    ]


def tensors(**more: Any) -> dict[str, Any]:
    return {
        "input_ids": np.array([[5]], np.int32),
        "input_lengths": np.array([[1]], np.int32),
        "request_output_len": np.array([[9]], np.int32),
        **more,
    }


def test_the_contract_has_them_as_ranges() -> None:
    ranges = np.array([[[3, 5], [9, 9]]], np.int32)

    assert GenerationRequest.from_tensors(tensors()).allowed_ids == ()
    read = GenerationRequest.from_tensors(tensors(allowed_ids=ranges))
    assert read.allowed_ids == ((3, 5), (9, 9))
    with pytest.raises(ContractError, match=r"'allowed_ids' is int32\[2\], the contract wants"):
        GenerationRequest.from_tensors(tensors(allowed_ids=ranges[:, 0]))


@pytest.mark.parametrize("wrong", [(-1, 5), (5, 4), (5, 100)])
def test_a_range_that_is_none_is_refused(wrong: tuple[int, int]) -> None:
    request = GenerationRequest(np.array([5], np.int32), 9, allowed_ids=((1, 2), wrong))

    with pytest.raises(InvalidInputError, match=f"allowed_ids hold {wrong[0]} to {wrong[1]}"):
        check_generation(request, vocabulary=100, room=50)
