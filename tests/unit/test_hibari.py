from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hibari import Hibari
from hypothesis import given
from hypothesis import strategies as st

from speech_backend.hibari import (
    CHUNK_SAMPLES,
    MAX_PHONEMES,
    MAX_SEGMENT_CHARACTERS,
    SAMPLE_RATE_HZ,
    HibariSpeaker,
    _utterances,
    split_segments,
    trim,
)
from speech_backend.serving import InvalidInputError
from speech_wire import PcmChunk, SynthesisRequest

TWO_SENTENCES = "The train leaves at nine. Please be there in time."
ORDINARY = [
    "Hello there, this is a quick test.",
    "The quick brown fox jumps over the lazy dog.",
    "Good morning! How are you today?",
    "It costs 25 dollars, and that is too much.",
]
CLOSING_MARKS = '"\u201d\u2019)]'


@pytest.fixture(scope="module")
def speaker() -> HibariSpeaker:
    return HibariSpeaker(["heart"])


def speak(speaker: HibariSpeaker, text: str, **options: Any) -> list[PcmChunk]:
    return list(speaker.synthesize(SynthesisRequest(text, **options)))


def joined(chunks: list[PcmChunk]) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.concatenate([chunk.samples for chunk in chunks])


def test_the_same_text_and_seed_give_the_same_bits(speaker: HibariSpeaker) -> None:
    first, second = (joined(speak(speaker, TWO_SENTENCES, seed=7)) for _ in range(2))

    assert first.dtype == np.float32
    assert first.tobytes() == second.tobytes()


def test_another_seed_gives_other_samples(speaker: HibariSpeaker) -> None:
    first, second = (joined(speak(speaker, TWO_SENTENCES, seed=seed)) for seed in (7, 8))

    assert first.tobytes() != second.tobytes()


def test_a_request_without_seed_is_repeatable_too(speaker: HibariSpeaker) -> None:
    first, second = (joined(speak(speaker, "Yes.")) for _ in range(2))

    assert first.tobytes() == second.tobytes()


def test_chunks_follow_each_other_without_gap_or_overlap(speaker: HibariSpeaker) -> None:
    chunks = speak(speaker, TWO_SENTENCES)

    assert chunks[0].sample_offset == 0
    for earlier, later in pairwise(chunks):
        assert earlier.sample_offset is not None
        assert later.sample_offset == earlier.sample_offset + len(earlier.samples)


def test_only_the_last_chunk_says_that_the_text_is_done(speaker: HibariSpeaker) -> None:
    reasons = [chunk.finish_reason for chunk in speak(speaker, TWO_SENTENCES)]

    assert reasons == [None] * (len(reasons) - 1) + ["stop"]


def test_a_chunk_holds_at_most_half_a_second_at_the_stated_rate(speaker: HibariSpeaker) -> None:
    chunks = speak(speaker, TWO_SENTENCES)

    assert {chunk.sample_rate_hz for chunk in chunks} == {24_000}
    assert max(len(chunk.samples) for chunk in chunks) == CHUNK_SAMPLES == 12_000
    assert min(len(chunk.samples) for chunk in chunks) > 0


@pytest.mark.parametrize("text", ORDINARY)
def test_speech_starts_within_50_ms(speaker: HibariSpeaker, text: str) -> None:
    samples = joined(speak(speaker, text))

    loud = np.flatnonzero(np.abs(samples) > 0.01)
    assert loud[0] < 0.05 * SAMPLE_RATE_HZ


@pytest.mark.parametrize("text", ORDINARY)
def test_speech_is_as_loud_as_other_voices(speaker: HibariSpeaker, text: str) -> None:
    samples = joined(speak(speaker, text))

    level_dbfs = 20 * np.log10(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
    assert -22 < level_dbfs < -16


def test_trim_keeps_the_pause_after_a_sentence_and_cuts_it_inside_one() -> None:
    second = np.zeros(SAMPLE_RATE_HZ, np.float32)
    samples = np.concatenate([second, second + np.float32(0.5), second])

    whole, inside = trim(samples, keep_pause=True), trim(samples, keep_pause=False)

    lead, tail = 0.02, 0.05
    assert len(whole) == pytest.approx((lead + 2) * SAMPLE_RATE_HZ, abs=2)
    assert len(inside) == pytest.approx((lead + 1 + tail) * SAMPLE_RATE_HZ, abs=2)


@pytest.mark.parametrize(
    ("text", "character"),
    [
        ("Привет", "П"),
        ("Hello 世界 again.", "世"),
        ("مرحبا", "م"),
        ("First this. Then, after a while, שלום.", "ש"),
        ("beta is β", "β"),
    ],
    ids=["Russian", "Chinese in English", "Arabic", "Hebrew in the second sentence", "Greek"],
)
def test_a_letter_of_another_script_is_named(
    speaker: HibariSpeaker, text: str, character: str
) -> None:
    chunks = speaker.synthesize(SynthesisRequest(text))

    with pytest.raises(InvalidInputError, match=f"'{character}'"):
        next(chunks)


@pytest.mark.parametrize(
    "text",
    ["😀", "🎉 👍🏽", "...", "?!", "— “…” —", "", " \n\t "],
    ids=["emoji", "emojis", "dots", "marks", "typography", "empty", "white space"],
)
def test_a_text_without_anything_to_say_is_refused(speaker: HibariSpeaker, text: str) -> None:
    with pytest.raises(InvalidInputError, match="nothing that can be spoken"):
        speak(speaker, text)


@pytest.mark.parametrize(
    "text", ["Café à la crème.", "Łódź", "5 µm", "π", "3 Ω", "1 234,5", "42", "Nice 😀", "½"]
)
def test_what_english_texts_contain_is_spoken(speaker: HibariSpeaker, text: str) -> None:
    samples = joined(speak(speaker, text))

    assert len(samples) > 0.2 * SAMPLE_RATE_HZ
    assert np.abs(samples).max() > 0.1


def test_a_named_voice_speaks_and_an_unknown_one_is_refused_with_those_there_are(
    speaker: HibariSpeaker,
) -> None:
    assert speak(speaker, "Yes.", voice="heart")

    with pytest.raises(InvalidInputError, match=r"'nobody' .*\['heart'\]"):
        speak(speaker, "Yes.", voice="nobody")


def test_the_first_chunk_comes_before_the_second_sentence_is_made(
    speaker: HibariSpeaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The foreign voice is watched: how often its network has run when a chunk arrives."""
    runs: list[str] = []
    original = Hibari.from_phonemes

    def watched(voice: Hibari, phonemes: str, **options: Any) -> Any:
        runs.append(phonemes)
        return original(voice, phonemes, **options)

    monkeypatch.setattr(Hibari, "from_phonemes", watched)
    chunks = speaker.synthesize(SynthesisRequest(TWO_SENTENCES))
    next(chunks)
    runs_at_first_chunk = len(runs)
    rest = list(chunks)

    assert rest
    assert (runs_at_first_chunk, len(runs)) == (1, 2)


def test_a_long_text_without_punctuation_is_split_between_words() -> None:
    text = "seven little words and no full stop " * 139

    parts = split_segments(text)

    assert max(len(part.text) for part in parts) <= MAX_SEGMENT_CHARACTERS
    assert " ".join(part.text for part in parts) == text.strip()
    assert [part.ends_sentence for part in parts] == [False] * (len(parts) - 1) + [True]


def test_a_long_sentence_is_split_at_its_last_clause_that_fits() -> None:
    clause = "it goes on for a while and then some more,"
    text = f"{' '.join([clause] * 9)} until it ends."

    parts = [part.text for part in split_segments(text)]

    assert all(part.endswith(",") for part in parts[:-1])
    assert len(parts) == 3


def bare(text: str) -> str:
    """Drop white space, and the quotes that hibari's splitter drops after a full stop."""
    return "".join(c for c in text if not c.isspace() and c not in CLOSING_MARKS)


words = st.text(st.sampled_from("abcXYZ 09 ,;:—.!?…\n\t'-(µé") | st.characters(codec="utf-8"))


@given(st.lists(words | st.just("word " * 60) | st.just("x" * 450)).map("".join))
def test_splitting_loses_nothing_and_leaves_no_part_too_long(text: str) -> None:
    parts = [part.text for part in split_segments(text)]

    assert bare("".join(parts)) == bare(text)
    assert all(0 < len(part) <= MAX_SEGMENT_CHARACTERS for part in parts)


@pytest.mark.parametrize(
    "unreadable", ["9" * 37, "Item \u2474 is not."], ids=["37-digits", "parenthesised-digit"]
)
def test_what_the_voice_cannot_read_is_refused_before_any_sound(
    speaker: HibariSpeaker, unreadable: str
) -> None:
    """Its own rules fail on these; what comes before them is not spoken either."""
    chunks = speaker.synthesize(SynthesisRequest(f"This part is fine. {unreadable}"))

    with pytest.raises(InvalidInputError, match="cannot read"):
        next(chunks)


def test_symbols_with_long_names_are_spoken_in_bounded_pieces() -> None:
    """The network never sees more than MAX_PHONEMES at once, however few characters they are."""
    voice = Hibari(threads=1)

    pieces = _utterances(voice, "^" * 60)

    assert len(pieces) > 1
    assert max(len(piece.phonemes) for piece in pieces) <= MAX_PHONEMES
    assert [piece.ends_sentence for piece in pieces].index(True) == len(pieces) - 1


def test_no_sample_is_beyond_full_scale(speaker: HibariSpeaker) -> None:
    assert np.abs(joined(speak(speaker, "x\u00b2"))).max() <= 1.0


@pytest.mark.parametrize(
    ("given", "usual"),
    [("cafe\u0301", "caf\u00e9"), ("don\u02bct", "don't")],
    ids=["decomposed", "modifier-apostrophe"],
)
def test_other_spellings_of_the_same_text_sound_the_same(
    speaker: HibariSpeaker, given: str, usual: str
) -> None:
    assert joined(speak(speaker, given)).tobytes() == joined(speak(speaker, usual)).tobytes()
