from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.spark import TOKENS, vocabulary
from speech_backend.serving import InvalidInputError
from speech_backend.tokens import GENDERS, LEVELS, MARKS, TokenMap, TokenMapError


def test_codes_and_ids_are_those_of_the_published_tokenizer() -> None:
    """Two independent ports of Spark-TTS agree on these numbers."""
    assert TOKENS.global_codes.ids([0, 4095]).tolist() == [151_665, 155_760]
    assert TOKENS.semantic_codes.ids([0, 8191]).tolist() == [155_761, 163_952]
    assert TOKENS.stop_ids[1] == 151_645


@given(st.integers(0, 8191))
def test_an_id_gives_its_code_back(code: int) -> None:
    token_id = int(TOKENS.semantic_codes.ids([code])[0])

    assert token_id in TOKENS.semantic_codes
    assert token_id not in TOKENS.global_codes
    assert TOKENS.semantic_codes.code(token_id) == code


def test_the_ranges_end_where_they_end() -> None:
    assert 155_760 not in TOKENS.semantic_codes
    assert 163_953 not in TOKENS.semantic_codes


def test_ids_are_an_array_of_int32() -> None:
    assert TOKENS.global_codes.ids(np.array([3], np.int64)).dtype == np.int32


@pytest.mark.parametrize("code", [-1, 4096])
def test_a_code_that_does_not_exist_is_the_callers_error(code: int) -> None:
    with pytest.raises(InvalidInputError, match=f"global tokens hold {code}, allowed are 0 to 409"):
        TOKENS.global_codes.ids([0, code])


def test_labels_are_known_by_name() -> None:
    assert list(TOKENS.genders.items()) == [("female", 165_032), ("male", 165_033)]
    assert [TOKENS.pitches[name] for name in LEVELS] == list(range(164_965, 164_970))
    assert [TOKENS.speeds[name] for name in LEVELS] == list(range(164_986, 164_991))
    assert tuple(TOKENS.genders) == GENDERS


def test_a_voices_fine_values_are_known_with_their_marks() -> None:
    assert len(TOKENS.acoustic_ids) == 1001 + 11 + 2
    assert {163_953, 164_953, 164_975, 164_985} <= TOKENS.acoustic_ids


def test_every_control_token_has_its_name_and_text_has_none() -> None:
    assert TOKENS.names[151_645] == "<|im_end|>"
    assert TOKENS.names[155_761] == "<|bicodec_semantic_0|>"
    assert not {"hello", "<|>"} & set(TOKENS.names.values())


@pytest.mark.parametrize(
    "missing",
    [
        *(f"<|{name}|>" for name in MARKS),
        "<|bicodec_global_4095|>",
        "<|bicodec_semantic_0|>",
        "<|gender_1|>",
        "<|pitch_label_4|>",
        "<|speed_label_0|>",
        "<|pitch_value_1000|>",
        "<|speed_value_10|>",
    ],
)
def test_a_missing_token_is_named(missing: str) -> None:
    words = vocabulary()
    del words[missing]

    with pytest.raises(TokenMapError, match=f"lacks {re.escape(missing)}; is it the one from"):
        TokenMap.from_vocabulary(words)


def test_of_many_missing_tokens_the_first_are_named_and_the_others_counted() -> None:
    with pytest.raises(TokenMapError, match=r"lacks <\|task_tts\|>, .* and 13320 more; is it"):
        TokenMap.from_vocabulary({"hello": 1})


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("<|bicodec_semantic_6|>", "<|bicodec_semantic_7|>", "semantic_6|> has the id 155768, not"),
        ("<|bicodec_global_0|>", "<|bicodec_global_4095|>", "global_1|> has the id 151666, not 15"),
    ],
)
def test_codes_out_of_order_are_named(first: str, second: str, message: str) -> None:
    words = vocabulary()
    words[first], words[second] = words[second], words[first]

    with pytest.raises(TokenMapError, match=re.escape(message)):
        TokenMap.from_vocabulary(words)
