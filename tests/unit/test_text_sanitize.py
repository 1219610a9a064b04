from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text.sanitize import sanitize

GOLDEN = Path(__file__).parents[1] / "golden" / "sanitize.tsv"
WORD = st.text(alphabet="abcdefghij", min_size=1, max_size=6)
SIZE = 20_000


def rows() -> list[list[str]]:
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    return [[json.loads(f'"{cell}"') for cell in line.split("\t")] for line in lines]


@pytest.mark.parametrize(("written", "left"), rows())
def test_what_nobody_says_is_taken_out(written: str, left: str) -> None:
    assert sanitize(written, "domain") == left


@pytest.mark.parametrize(("written", "left"), rows())
def test_a_clean_text_stays_as_it_is(written: str, left: str) -> None:
    """All but what looked like markup only because something was taken out or escaped."""
    if "\\" not in written and not left.startswith((">", "    ")):
        assert sanitize(left, "domain") == left


def test_the_golden_table_is_large() -> None:
    assert len(rows()) >= 60


@pytest.mark.parametrize(
    ("urls", "left"),
    [
        ("domain", "See example.com, then a@b.org."),
        ("keep", "See https://www.example.com/a?b=c#d, then a@b.org."),
        ("drop", "See, then a@b.org."),
    ],
)
def test_addresses_are_shortened_kept_or_dropped(urls: str, left: str) -> None:
    text = "See https://www.example.com/a?b=c#d, then a@b.org."

    assert sanitize(text, urls) == left  # type: ignore[arg-type]


def test_markdown_and_its_plain_version_give_the_same_text() -> None:
    markdown = (
        "# The plan\n\nWe **must** use `snake_case` and read [the guide](https://x.org/a_b).\n\n"
        "- First *thing*\n- Second\n\n> Said by ~~nobody~~ someone.\n\n| a | b |\n|---|:-:|\n"
    )
    plain = (
        "The plan\n\nWe must use snake_case and read the guide.\n\n"
        "First thing\nSecond\n\nSaid by nobody someone.\n\na, b\n"
    )

    assert sanitize(markdown, "domain") == sanitize(plain, "domain")


@given(st.lists(WORD, min_size=1, max_size=8), st.lists(st.sampled_from("*_`~[]#>|-+ !")))
def test_words_are_never_lost_whatever_marks_stand_around_them(
    words: list[str], marks: list[str]
) -> None:
    text = " ".join(f"{''.join(marks)} {word}" for word in words)

    letters = [character for character in sanitize(text, "keep") if character.isalpha()]

    assert "".join(letters) == "".join(words)


@given(
    st.text(alphabet="ab1 .,;:!?'’‘\"“”()…–—-", max_size=30),
    st.sampled_from(["", "www.a.org/b ", "http://a.org "]),
)
def test_prose_is_left_as_it_would_be_among_markup(words: str, address: str) -> None:
    """A character that nobody sees sends a text through every step; prose is spared most."""
    text = f"{address}{words}"

    assert sanitize(text, "domain") == sanitize(f"{text}\u200b", "domain")


@pytest.mark.parametrize("depth", [30, 200])
@pytest.mark.parametrize("mark", ["> ", "- ", "* ", "1. ", "*", "**", "_", "[", "`", "~~"])
def test_what_is_nested_deeply_is_not_lost(mark: str, depth: int) -> None:
    assert "word" in sanitize(mark * depth + "word", "domain")


@pytest.mark.parametrize(
    "row",
    [
        *"*_`[(<>|~#-!&\\'\"“",
        *("**a", "*a ", "[a](", "![[", "[a][", "<a ", "<!--", "> ", "- ", "a\n", "\n", " ", "a"),
        *("https://a", "www.", "😀", " 😀", "\u200d", "e\u0301", "[^a", "# ", "_*", "|a", "`a``b"),
    ],
)
def test_long_rows_of_marks_come_to_an_end(row: str) -> None:
    text = row * (SIZE // len(row))

    assert len(sanitize(text, "domain")) <= len(text)


def test_a_long_word_and_a_long_address_pass() -> None:
    assert sanitize("a" * SIZE, "domain") == "a" * SIZE
    assert sanitize(f"https://a.org/{'a' * SIZE}))))", "domain") == "a.org))))"
