from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.english_words import COUNTED, ROMAN_AFTER, RULERS, YEAR_AFTER
from gateway.text.normalize import normalize

GOLDEN = Path(__file__).parents[1] / "golden"
# Each rule's own words, and words that begin like a numeral: "John Lennon", "Book Lovers".
WORDS = [
    *("hello", "World", "NASA", "naïve", "don't", "iPhone", "Alice", "well-known", "Go"),
    *("Lennon", "Lucas", "Vuitton", "Xavier", "Illinois", "Leader", "Less", "Ivy", "Lou"),
    *ROMAN_AFTER.split("|"),
    *RULERS.split("|"),
    *COUNTED.split("|"),
    *(word for word in YEAR_AFTER.split("|") if word != "class of"),
]
NUMERALS = "0123456789.,:/-$€%°+#@()[]<>=*^&'\"~ abAPMkmTh½–—−点年"


def rows(name: str) -> list[list[str]]:
    lines = (GOLDEN / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines]


@pytest.mark.parametrize(("written", "said"), rows("normalize_en.tsv"))
def test_english_is_said_as_a_reader_says_it(written: str, said: str) -> None:
    assert normalize(written, "en") == said


@pytest.mark.parametrize(("written", "said"), rows("normalize_zh.tsv"))
def test_chinese_is_said_as_a_reader_says_it(written: str, said: str) -> None:
    assert normalize(written, "zh") == said


@pytest.mark.parametrize(
    ("written", "right", "said"), rows("known_faults_en.tsv") + rows("known_faults_zh.tsv")
)
def test_known_faults_are_still_there(written: str, right: str, said: str) -> None:
    """A row that is right now belongs into the golden table."""
    assert normalize(written, None) == said != right


def test_the_golden_tables_are_large_and_have_no_row_twice() -> None:
    for name in ("normalize_en.tsv", "normalize_zh.tsv"):
        written = [row[0] for row in rows(name)]
        assert len(written) == len(set(written)) >= 200


@pytest.mark.parametrize(
    ("sentence", "language", "said"),
    [
        ("I see 5.", None, "I see five."),
        ("I see 5.", "en-GB", "I see five."),
        ("I see 5.", "en_us", "I see five."),
        ("I see 5.", "zh-CN", "I see five."),
        ("我有5个。", None, "我有五个。"),
        ("我有5个。", "en", "我有五个。"),
        ("5。", "zh", "五。"),
        ("5.", None, "5."),
        ("Ich sehe 5.", "de", "Ich sehe 5."),
        ("J'en vois 5.", "fr-FR", "J'en vois 5."),
        ("本が5冊あります。", None, "本が5冊あります。"),
        ("価格100円", "ja", "価格100円"),
        ("У меня 5.", None, "У меня 5."),
    ],
)
def test_the_script_comes_before_the_language(
    sentence: str, language: str | None, said: str
) -> None:
    assert normalize(sentence, language) == said


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12))
def test_plain_words_come_out_as_they_went_in(words: list[str]) -> None:
    sentence = " ".join(words) + ". "

    assert normalize(sentence, "en") == sentence


@given(st.text(alphabet=NUMERALS, max_size=24), st.sampled_from(["en", "zh"]))
def test_words_beside_any_digits_and_signs_are_kept(signs: str, language: str) -> None:
    word = "中" if language == "zh" else "Hello"

    said = normalize(f"{word} {signs} {word}", language)

    assert said.startswith(word)
    assert said.endswith(word)
    assert not any(digit in said for digit in "0123456789")


def test_spaces_around_a_sentence_stay() -> None:
    assert normalize(" I see 5.\n\n", "en") == " I see five.\n\n"


def test_the_full_stop_of_an_abbreviation_goes_on_ending_the_sentence() -> None:
    assert normalize("Meet at 5 p.m. ", "en") == "Meet at five PM. "
    assert normalize("Meet at 5 p.m. or so. ", "en") == "Meet at five PM or so. "


@pytest.mark.parametrize("row", ["1", "1,", ",111", "1.", "a@", "1-", "$1 ", "-", "(", "+", "a."])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_long_rows_of_signs_come_to_an_end(row: str, language: str) -> None:
    said = normalize(f"{row * (4000 // len(row))} {'中' if language == 'zh' else 'a'}", language)

    assert said


def test_it_may_be_called_from_several_threads() -> None:
    calls = [
        (written, language, said)
        for language in ("en", "zh")
        for written, said in rows(f"normalize_{language}.tsv")
    ]

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda call: normalize(call[0], call[1]), calls * 4))

    assert said == [call[2] for call in calls * 4]
