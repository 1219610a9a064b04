from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.spark import TOKENS, mark, speech
from speech_backend.guards import (
    MAX_CYCLE_TOKENS,
    MAX_REPETITION_SECONDS,
    ModelOutputError,
    OutputReader,
)
from speech_backend.prompts import Prompter
from speech_backend.tokens import TOKENS_PER_SECOND

if TYPE_CHECKING:
    from speech_backend.prompts import Prompt

VOICE = np.arange(32, dtype=np.int32)
PROMPTER = Prompter(TOKENS, lambda text: list(text.encode()))
CONTINUED = PROMPTER.continue_reference("Yes.", "I said.", VOICE, VOICE)
CLONED = PROMPTER.clone("Yes.", VOICE)
CREATED = PROMPTER.create_voice("Yes.", "male", None, None)

OPEN, CLOSE, END = mark("start_semantic_token"), mark("end_semantic_token"), mark("im_end")
MADE = [
    mark("start_acoustic_token"),
    163_953 + 300,
    164_975 + 4,
    mark("end_acoustic_token"),
    mark("start_global_token"),
    *TOKENS.global_codes.ids(VOICE + 100).tolist(),
    mark("end_global_token"),
    OPEN,
]
LIMIT = 1000
REPEATS = round(MAX_REPETITION_SECONDS * TOKENS_PER_SECOND)


def ids(*parts: int | list[int]) -> np.ndarray[Any, Any]:
    return np.hstack(parts).astype(np.int32)


def reader(prompt: Prompt = CONTINUED, limit: int = LIMIT) -> OutputReader:
    return OutputReader(TOKENS, prompt, limit)


@pytest.mark.parametrize("stop", [CLOSE, END])
def test_speech_ends_with_either_stop_id_and_nothing_after_it_counts(stop: int) -> None:
    read = reader()

    assert read.read(ids(speech([1, 2]), stop, speech([3]))) == [1, 2]
    assert read.finish_reason == "stop"


def test_an_output_that_ends_without_its_stop_id_has_ended_by_itself() -> None:
    read = reader()
    read.read(ids(speech([1, 2])))
    read.end()

    assert read.finish_reason == "stop"


def test_an_output_at_its_limit_was_cut() -> None:
    read = reader(limit=3)

    assert read.read(ids(speech([1, 2]))) == [1, 2]
    assert read.finish_reason is None
    assert read.read(ids(speech([3, 4]))) == [3]
    assert read.finish_reason == "length"


def test_an_end_that_just_fits_the_limit_is_no_cut() -> None:
    read = reader(limit=3)
    read.read(ids(speech([1, 2]), END))

    assert read.finish_reason == "stop"


def test_the_model_opens_the_speech_of_a_clone_itself() -> None:
    assert reader(CLONED).read(ids(OPEN, speech([1]))) == [1]


def test_a_made_voice_is_known_before_its_speech() -> None:
    read = reader(CREATED)

    assert read.read(ids(MADE)) == []
    assert read.made_voice is not None
    assert read.made_voice.dtype == np.int32
    assert read.made_voice.tolist() == list(range(100, 132))
    assert read.read(ids(speech([5]))) == [5]


def test_a_given_voice_is_not_one_that_was_made() -> None:
    read = reader(CLONED)

    assert read.voice() is VOICE
    assert read.made_voice is None


@pytest.mark.parametrize(
    ("prompt", "wrong", "message"),
    [
        (CONTINUED, ids(14_990), r"wrote id 14990 \(text\) before its speech"),
        (CONTINUED, ids(OPEN), r"start_semantic_token\|>\) before its speech"),
        (CONTINUED, ids(speech([1]), 165_999), r"id 165999 \(text\) in its speech"),
        (CLONED, ids(OPEN, speech([1]), OPEN), r"start_semantic_token\|>\) in its speech"),
        (CLONED, ids(OPEN, 151_665), r"\(<\|bicodec_global_0\|>\) before its speech"),
        (CREATED, ids(MADE[:-3], OPEN, speech([1])), "after 31 of the voice's 32 tokens"),
        (CREATED, ids(speech([1])), "after 0 of the voice's 32 tokens"),
        (CREATED, ids(MADE[:-2], 151_665), "more than 32 tokens for a voice"),
        (CREATED, ids(MADE, speech([1]), 163_953), r"pitch_value_0\|>\) in its speech"),
        (CONTINUED, ids(END), "ended without any speech"),
        (CLONED, ids(OPEN, CLOSE), "ended without any speech"),
        (CREATED, ids(MADE, END), "ended without any speech"),
    ],
)
def test_what_is_out_of_place_is_the_models_error(
    prompt: Prompt, wrong: np.ndarray[Any, Any], message: str
) -> None:
    with pytest.raises(ModelOutputError, match=message):
        reader(prompt).read(wrong)


def test_an_output_that_just_ends_has_no_speech_either() -> None:
    with pytest.raises(ModelOutputError, match="without any speech"):
        reader().end()


@pytest.mark.parametrize("period", [1, 2, 3, MAX_CYCLE_TOKENS])
def test_a_cycle_that_lasts_is_cut_and_flagged(
    period: int, caplog: pytest.LogCaptureFixture
) -> None:
    start, cycle = [900, 901, 902], [7 + n for n in range(period)]
    read = reader()

    codes = read.read(ids(speech(start + cycle * LIMIT)))

    assert codes == (start + cycle * LIMIT)[: 3 + period + REPEATS]
    assert read.finish_reason == "length"
    assert "repeated itself for 3 s and was cut" in caplog.text


@pytest.mark.parametrize(
    "codes",
    [
        [7] * REPEATS + [8] + [7] * REPEATS,
        list(range(MAX_CYCLE_TOKENS + 1)) * 60,
        [7, 8, 9] * 50 + [10] + [7, 8, 9] * 50,
    ],
    ids=["interrupted", "longer cycle", "interrupted cycle"],
)
def test_what_repeats_for_less_or_in_longer_turns_is_left_alone(codes: list[int]) -> None:
    read = reader()

    assert read.read(ids(speech(codes))) == codes
    assert read.finish_reason is None


@given(st.data(), st.lists(st.integers(0, 3), max_size=200), st.integers(1, 400))
def test_how_ids_are_grouped_changes_nothing(
    data: st.DataObject, codes: list[int], limit: int
) -> None:
    everything = ids(MADE, speech([9]), speech(codes + [5] * 200), END)
    whole, parts = reader(CREATED, 40 + limit), reader(CREATED, 40 + limit)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(everything)), max_size=8)))

    expected = whole.read(everything)
    found = [code for part in np.split(everything, cuts) for code in parts.read(part)]

    assert found == expected
    assert parts.finish_reason == whole.finish_reason
