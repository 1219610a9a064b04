from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.text import spelling
from gateway.text.normalize import normalize
from gateway.text.policy import TextPolicy
from gateway.text.prepare import segments
from gateway.text.sanitize import sanitize
from gateway.text.split import sentences

TEXT = st.lists(
    st.sampled_from(
        [
            "Hello",
            "world",
            "3.5",
            "$5",
            "5 kg",
            "你好",
            "。",
            "，",
            ". ",
            "! ",
            " ",
            "\n",
            "**",
            "…",
        ]
    ),
    max_size=80,
).map("".join)
RAW = TextPolicy(sanitize=False, normalize=False, split=False)


@given(TEXT)
def test_segments_joined_are_the_normalised_sentences_joined(text: str) -> None:
    policy = TextPolicy(first_segment_characters=30, segment_characters=60)

    spoken = list(segments(text, policy))

    clean = sanitize(text, "domain")
    assert "".join(spoken) == "".join(normalize(part, None) for part in sentences(clean))
    assert all(len(segment) <= 60 for segment in spoken)
    if any(map(str.isalnum, clean)):
        assert all(any(map(str.isalnum, segment)) for segment in spoken)


def test_a_text_becomes_what_a_model_speaks() -> None:
    text = "# News\n\n**Dr. Smith** paid $5 😀. See https://example.com/a_b for 3 more."

    assert list(segments(text, TextPolicy())) == [
        "News\n\n",
        "Doctor Smith paid five dollars. See example dot com for three more.",
    ]


def test_each_step_can_be_switched_off() -> None:
    text = "**I** see 5. You see 6."

    assert list(segments(text, RAW)) == [text]
    assert list(segments(text, TextPolicy(sanitize=False, normalize=False))) == [
        "**I** see 5. ",
        "You see 6.",
    ]
    assert list(segments(text, TextPolicy(split=False))) == ["I see five. You see six."]


def test_without_splitting_the_maximum_still_holds() -> None:
    policy = TextPolicy(split=False, segment_characters=100)

    assert [len(segment) for segment in segments("a" * 250, policy)] == [100, 100, 50]


def test_a_text_with_nothing_to_speak_gives_no_segment() -> None:
    for text in ("", " ", "\n\t", "\u200b", "😀", "---"):
        assert list(segments(text, TextPolicy())) == []


def test_a_sentence_is_normalised_when_its_segment_is_due() -> None:
    spelled = spelling._spell.cache_info
    waiting = segments("One sentence. I see 71234 and 81234.", TextPolicy())

    before = spelled().misses
    assert next(waiting) == "One sentence. "
    assert spelled().misses == before

    assert next(waiting).startswith("I see seventy-one thousand")
    assert spelled().misses == before + 2


def test_the_language_decides_who_reads_the_numbers() -> None:
    assert list(segments("Ich sehe 5.", TextPolicy(language="de"))) == ["Ich sehe 5."]
