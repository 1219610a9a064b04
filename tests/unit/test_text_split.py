from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.split import pack, sentences

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(__file__).parents[1] / "golden" / "sentences.txt"
TEXT = st.text(alphabet="abcé漢字かな한ह्ि 12,;.!?…。，“”()\n\t\u0301\u200d", max_size=400)
WORDS = st.lists(st.from_regex(r"\A[a-z]{1,12}[,;.!?]?[ \n]\Z"), min_size=1, max_size=120).map(
    "".join
)


def golden() -> list[list[str]]:
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    return [line.replace("\\n", "\n").split("|") for line in lines]


def is_speakable(text: str) -> bool:
    return any(character.isalnum() for character in text)


@pytest.mark.parametrize("parts", golden())
def test_sentences_end_where_a_reader_ends_them(parts: list[str]) -> None:
    assert sentences("".join(parts)) == parts


def test_the_golden_table_is_large() -> None:
    assert len(golden()) >= 60


@given(TEXT)
def test_sentences_joined_are_the_text(text: str) -> None:
    parts = sentences(text)

    assert "".join(parts) == text
    if is_speakable(text):
        assert all(map(is_speakable, parts))


@pytest.mark.parametrize(
    "row", ["!", "[!", "`", "“", '"', ".", "\n", "a\n", " ", "Dr. ", "A. ", "a", "漢", "1. ", "!\n"]
)
def test_long_rows_of_marks_come_to_an_end(row: str) -> None:
    text = row * (50_000 // len(row))

    assert "".join(sentences(text)) == text
    assert "".join(pack(sentences(text), 80, 300)) == text


@given(TEXT, st.integers(1, 60), st.integers(1, 60))
def test_packing_loses_nothing_and_keeps_to_the_maximum(text: str, first: int, most: int) -> None:
    segments = list(pack(sentences(text), first, most))

    assert "".join(segments) == text
    assert all(len(segment) <= most for segment in segments)
    assert len(segments[0] if segments else "") <= first


@given(WORDS, st.integers(20, 80), st.integers(40, 300))
def test_every_segment_of_a_text_of_words_has_something_to_speak(
    text: str, first: int, most: int
) -> None:
    assert all(map(is_speakable, pack(sentences(text), first, most)))


@given(WORDS, st.integers(20, 80), st.integers(80, 300))
def test_segments_grow_no_faster_than_a_slow_model_can_speak(
    text: str, first: int, most: int
) -> None:
    lengths = [len(segment) for segment in pack(sentences(text), first, most)]

    assert all(after <= max(first, 3 * before) for before, after in itertools.pairwise(lengths))


def test_the_first_segment_is_one_sentence_and_the_next_ones_are_filled() -> None:
    parts = ["This is the first sentence. ", *["Another sentence. "] * 20]

    segments = list(pack(parts, 80, 120))

    assert segments == [parts[0], parts[1] * 4, parts[1] * 6, parts[1] * 6, parts[1] * 4]


def test_the_first_segment_needs_one_sentence_only() -> None:
    taken: list[str] = []

    def one_by_one() -> Iterator[str]:
        for part in ("One sentence. ", "Two. ", "Three."):
            taken.append(part)
            yield part

    first = next(pack(one_by_one(), 80, 300))

    assert first == "One sentence. "
    assert taken == ["One sentence. "]


def test_a_long_first_sentence_is_cut_after_a_clause() -> None:
    text = "When the rain had stopped at last, we went out into the garden and looked around us."

    assert next(pack([text], 60, 300)) == "When the rain had stopped at last, "


def test_a_cut_without_a_clause_comes_after_a_word() -> None:
    assert list(pack(["one two three four five"], 10, 10)) == ["one two ", "three ", "four five"]


def test_text_without_any_mark_is_spoken_in_full() -> None:
    assert [len(segment) for segment in pack(["a" * 700], 80, 300)] == [80, 240, 300, 80]
    assert [len(segment) for segment in pack(["漢" * 700], 80, 300)] == [80, 240, 300, 80]


@pytest.mark.parametrize("cluster", ["e\u0301", "한", "हि", "g\u0308\u0323", "가"])
def test_a_character_as_the_reader_sees_it_is_not_cut(cluster: str) -> None:
    segments = list(pack([cluster * 100], 7, 11))

    assert all(segment == cluster * (len(segment) // len(cluster)) for segment in segments)


def test_a_single_character_longer_than_the_maximum_is_cut_all_the_same() -> None:
    segments = list(pack(["e" + "\u0301" * 30], 10, 10))

    assert [len(segment) for segment in segments] == [10, 10, 10, 1]


def test_marks_at_the_end_of_a_full_segment_take_a_letter_with_them() -> None:
    assert list(pack(["a" * 10 + "?!"], 10, 10)) == ["a" * 9, "a?!"]


def test_marks_alone_join_what_follows() -> None:
    assert list(pack(["... ", "One. ", "Two."], 80, 300)) == ["... One. ", "Two."]
