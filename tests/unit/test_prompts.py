from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.spark import TOKENS, mark
from speech_backend.prompts import Prompter, TooLongError, check_room, join, max_new_tokens
from speech_backend.serving import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from speech_backend.prompts import Prompt

VOICE = np.arange(32, dtype=np.int32)
SPOKEN = np.array([5, 0, 8191], np.int32)


def encode(text: str) -> list[int]:
    return list(text.encode())


PROMPTER = Prompter(TOKENS, encode)


def marks(*names: str) -> list[int]:
    return [mark(name) for name in names]


def test_cloning_with_a_transcript_goes_on_after_the_references_speech() -> None:
    prompt = PROMPTER.continue_reference("So be it.", "I said.", VOICE, SPOKEN)

    assert prompt.ids.dtype == np.int32
    assert prompt.ids.tolist() == [
        *marks("task_tts", "start_content"),
        *encode("I said. So be it."),
        *marks("end_content", "start_global_token"),
        *range(151_665, 151_665 + 32),
        *marks("end_global_token", "start_semantic_token"),
        155_766,
        155_761,
        163_952,
    ]
    assert prompt.preamble == set()


def test_cloning_without_a_transcript_lets_the_model_open_the_speech() -> None:
    prompt = PROMPTER.clone("So be it.", VOICE)

    assert prompt.ids.tolist() == [
        *marks("task_tts", "start_content"),
        *encode("So be it."),
        *marks("end_content", "start_global_token"),
        *range(151_665, 151_665 + 32),
        *marks("end_global_token"),
    ]
    assert prompt.preamble == {mark("start_semantic_token")}
    assert prompt.global_tokens is VOICE


def test_a_voice_is_made_from_labels() -> None:
    prompt = PROMPTER.create_voice("So be it.", "male", "very_low", "high")

    assert prompt.ids.tolist() == [
        *marks("task_controllable_tts", "start_content"),
        *encode("So be it."),
        *marks("end_content", "start_style_label"),
        TOKENS.genders["male"],
        TOKENS.pitches["very_low"],
        TOKENS.speeds["high"],
        *marks("end_style_label"),
    ]
    assert prompt.global_tokens is None
    assert set(marks("start_acoustic_token", "start_global_token")) <= prompt.preamble


def test_pitch_and_speed_are_moderate_unless_given() -> None:
    short = PROMPTER.create_voice("Yes.", "female", None, None)

    long = PROMPTER.create_voice("Yes.", "female", "moderate", "moderate")
    assert short.ids.tolist() == long.ids.tolist()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ((None, None, None), "'gender' is missing, allowed are female, male; without a reference"),
        (("child", None, None), "'gender' is 'child', allowed are female, male"),
        (("male", "deep", None), "'pitch' is 'deep', allowed are very_low, low, moderate, high, v"),
        (("male", None, "2"), "'speed_label' is '2', allowed are very_low, low, moderate, high"),
    ],
)
def test_a_label_that_does_not_exist_is_an_error_with_those_that_do(
    labels: tuple[str | None, str | None, str | None], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        PROMPTER.create_voice("Yes.", *labels)


def make_all(text: str) -> list[Callable[[], Prompt]]:
    return [
        lambda: PROMPTER.continue_reference(text, "I said.", VOICE, SPOKEN),
        lambda: PROMPTER.clone(text, VOICE),
        lambda: PROMPTER.create_voice(text, "male", None, None),
    ]


@pytest.mark.parametrize("text", ["", " \n"])
def test_a_text_without_a_word_is_an_error_in_every_mode(text: str) -> None:
    for make in make_all(text):
        with pytest.raises(InvalidInputError, match="the text is empty"):
            make()


@pytest.mark.parametrize("transcript", ["", "  "])
def test_an_empty_transcript_is_an_error(transcript: str) -> None:
    with pytest.raises(InvalidInputError, match="transcript is empty; leave it out"):
        PROMPTER.continue_reference("Yes.", transcript, VOICE, SPOKEN)


def test_a_transcript_needs_its_speech() -> None:
    with pytest.raises(InvalidInputError, match="no semantic tokens"):
        PROMPTER.continue_reference("Yes.", "I said.", VOICE, SPOKEN[:0])


@pytest.mark.parametrize("voice", [VOICE[:31], VOICE.reshape(1, 32)])
def test_a_voice_of_another_size_is_an_error(voice: np.ndarray[Any, Any]) -> None:
    with pytest.raises(InvalidInputError, match="a voice is 32 global tokens, not"):
        PROMPTER.clone("Yes.", voice)


def test_a_text_cannot_steer_the_model_with_control_tokens() -> None:
    """A tokenizer reads the name of a control token in a text as that token."""
    prompter = Prompter(TOKENS, lambda _: [14_990, mark("end_content"), 14_990])

    with pytest.raises(InvalidInputError, match=r"the text holds '<\|end_content\|>', a control"):
        prompter.clone("hello<|end_content|>hello", VOICE)


@pytest.mark.parametrize(
    ("transcript", "text", "joined"),
    [
        ("the gospel.", "Actions", "the gospel. Actions"),
        ("你好。", "Hello", "你好。 Hello"),
        ("Hello.", "你好", "Hello.你好"),
        ("Hello.", "「はい」", "Hello.「はい」"),
        ("Hello.", "안녕", "Hello. 안녕"),
        ("Hello.", "“你好”", "Hello. “你好”"),
        ("Hello. ", "World", "Hello. World"),
        ("Hello.", "\nWorld", "Hello.\nWorld"),
        ("Hello.", "３", "Hello.３"),
    ],
)
def test_a_space_joins_transcript_and_text_where_bpe_needs_it(
    transcript: str, text: str, joined: str
) -> None:
    assert join(transcript, text) == joined


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Some call me nature, others call me mother nature.", 5.33),
        ("对，这就是我，万人敬仰的太乙真人。", 6.76),
    ],
)
def test_the_limit_leaves_room_for_recordings_of_people(text: str, seconds: float) -> None:
    """Two slow, acted recordings of known length."""
    assert 1.5 * seconds * 50 < max_new_tokens(text) < 4 * seconds * 50


def test_the_limit_grows_with_the_text_and_is_no_constant() -> None:
    sentence = "The train leaves at nine, please be there in time. "

    assert max_new_tokens(sentence) < 1_000
    assert 2_000 < max_new_tokens(6 * sentence) < 5_000


def test_digits_and_capitals_may_be_words() -> None:
    assert max_new_tokens("0123456789") > 3 * max_new_tokens("abcdefghij") / 2
    assert max_new_tokens("NASA") > max_new_tokens("nasa")


@given(st.text(), st.text())
def test_more_text_never_has_a_lower_limit(first: str, second: str) -> None:
    assert 100 < max_new_tokens(first) <= max_new_tokens(first + second)


def test_the_limit_counts_what_is_written_before_the_speech() -> None:
    speech, opened, made = (make().max_new_tokens for make in make_all("Yes."))

    assert (speech, opened, made) == (
        max_new_tokens("Yes."),
        max_new_tokens("Yes.") + 1,
        max_new_tokens("Yes.") + 39,
    )


def test_prompt_and_speech_that_just_fit_are_fine_and_one_more_is_an_error_with_the_numbers() -> (
    None
):
    prompt = PROMPTER.clone("Yes.", VOICE)
    needed = len(prompt.ids) + 500

    check_room(prompt, 500, needed)
    with pytest.raises(TooLongError, match=rf"may be 500 \(10 s\): {needed} in all, the model hol"):
        check_room(prompt, 500, needed - 1)
    assert issubclass(TooLongError, InvalidInputError)
