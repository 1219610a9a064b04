"""Prompts for Spark-TTS's language model, as ids: only text goes through the tokenizer's BPE."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from speech_backend.serving import InvalidInputError
from speech_backend.tokens import GLOBAL_TOKENS, TOKENS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from speech_backend.tokens import TokenMap

LETTER_SECONDS = 1 / 15
"""A letter, space or mark of an alphabet. LJ Speech, read English: 1 308 678 characters in
86 117 s are 15.2 a second (2.6 words)."""

SYLLABLE_SECONDS = 1 / 5
"""A Chinese character, a kana, a Hangul syllable. Pellegrino and others (2011), "A cross-language
perspective on speech information rate": read Mandarin has 5.18 syllables a second."""

WORD_SECONDS = 0.4
"""A digit, symbol or capital, which may be spoken as a word: LJ Speech's 2.6 words a second."""

SLOWEST = 3.0
"""How much slower than read speech a voice may be: a slow reader takes half as long again (the
label `very_low`), pauses and acted speech double it."""

SPARE_SECONDS = 2.0
"""For silence before and after."""

CJK = (
    (0x2E80, 0x2FDF),  # radicals
    (0x3000, 0x30FF),  # punctuation, hiragana, katakana
    (0x3100, 0x312F),  # bopomofo
    (0x31A0, 0x31FF),
    (0x3400, 0x4DBF),  # Han, extension A
    (0x4E00, 0x9FFF),  # Han
    (0xF900, 0xFAFF),
    (0xFF00, 0xFFEF),  # full-width forms
    (0x20000, 0x3FFFF),
)
HANGUL = ((0x1100, 0x11FF), (0x3130, 0x318F), (0xAC00, 0xD7FF))

# start_acoustic_token, pitch_value, speed_value, end_acoustic_token, start_global_token, the
# voice's codes, end_global_token, start_semantic_token.
VOICE_PREAMBLE = 7 + GLOBAL_TOKENS


class TooLongError(InvalidInputError):
    """Prompt and output do not fit into the language model's sequence."""


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """What the language model is given, and what it may write before speech.

    `ids` int32[n]; `preamble` the ids that may come before the first semantic one, besides the
    voice's; `global_tokens` int32[32], or None if the model writes the voice itself;
    `max_new_tokens` is generous for this text, preamble and end included.
    """

    ids: npt.NDArray[np.int32]
    preamble: frozenset[int]
    global_tokens: npt.NDArray[np.int32] | None
    max_new_tokens: int


class Prompter:
    """Makes prompts; `encode` is the tokenizer's BPE without special tokens of its own.

    Every method raises InvalidInputError for what cannot be a prompt.
    """

    def __init__(self, tokens: TokenMap, encode: Callable[[str], Sequence[int]]) -> None:
        self._tokens = tokens
        self._encode = encode

    def continue_reference(
        self,
        text: str,
        transcript: str,
        global_tokens: npt.NDArray[np.int32],
        semantic_tokens: npt.NDArray[np.int32],
    ) -> Prompt:
        """Clone a voice from a reference and its transcript: the model goes on speaking."""
        if not transcript.strip():
            raise InvalidInputError(
                "the reference's transcript is empty; leave it out to clone without one"
            )
        if len(semantic_tokens) == 0:
            raise InvalidInputError("the reference has a transcript but no semantic tokens")
        ids = [
            *self._clone_ids(join(transcript, text), text, global_tokens),
            self._tokens.marks["start_semantic_token"],
            *self._tokens.semantic_codes.ids(semantic_tokens).tolist(),
        ]
        return _prompt(ids, frozenset(), global_tokens, max_new_tokens(text))

    def clone(self, text: str, global_tokens: npt.NDArray[np.int32]) -> Prompt:
        """Clone a voice from its 32 codes; the model opens the speech itself."""
        preamble = frozenset([self._tokens.marks["start_semantic_token"]])
        ids = self._clone_ids(text, text, global_tokens)
        return _prompt(ids, preamble, global_tokens, max_new_tokens(text) + 1)

    def create_voice(
        self, text: str, gender: str | None, pitch: str | None, speed: str | None
    ) -> Prompt:
        """Have the model make a voice up; pitch and speed are `moderate` unless given."""
        marks = self._tokens.marks
        labels = [
            _label("gender", gender, self._tokens.genders),
            _label("pitch", pitch or "moderate", self._tokens.pitches),
            _label("speed_label", speed or "moderate", self._tokens.speeds),
        ]
        ids = [
            marks["task_controllable_tts"],
            *self._content(text, text),
            marks["start_style_label"],
            *labels,
            marks["end_style_label"],
        ]
        preamble = self._tokens.acoustic_ids | {
            marks["start_global_token"],
            marks["end_global_token"],
            marks["start_semantic_token"],
        }
        return _prompt(ids, preamble, None, max_new_tokens(text) + VOICE_PREAMBLE)

    def _clone_ids(
        self, content: str, text: str, global_tokens: npt.NDArray[np.int32]
    ) -> list[int]:
        if np.shape(global_tokens) != (GLOBAL_TOKENS,):
            raise InvalidInputError(
                f"a voice is {GLOBAL_TOKENS} global tokens, not {list(np.shape(global_tokens))}"
            )
        marks = self._tokens.marks
        return [
            marks["task_tts"],
            *self._content(content, text),
            marks["start_global_token"],
            *self._tokens.global_codes.ids(global_tokens).tolist(),
            marks["end_global_token"],
        ]

    def _content(self, content: str, text: str) -> list[int]:
        if not text.strip():
            raise InvalidInputError("the text is empty")
        ids = list(self._encode(content))
        # Tokenizers read "<|im_end|>" in a text as that token: a text must not steer the model.
        names = self._tokens.names
        if control := [names[token_id] for token_id in ids if token_id in names]:
            raise InvalidInputError(f"the text holds '{control[0]}', a control token of the model")
        marks = self._tokens.marks
        return [marks["start_content"], *ids, marks["end_content"]]


def _prompt(
    ids: list[int],
    preamble: frozenset[int],
    global_tokens: npt.NDArray[np.int32] | None,
    new_tokens: int,
) -> Prompt:
    return Prompt(np.array(ids, np.int32), preamble, global_tokens, new_tokens)


def _label(name: str, value: str | None, allowed: Mapping[str, int]) -> int:
    if value is None or value not in allowed:
        given = "missing" if value is None else f"'{value}'"
        raise InvalidInputError(
            f"'{name}' is {given}, allowed are {', '.join(allowed)}; "
            "without a reference, a voice is made from gender, pitch and speed_label"
        )
    return allowed[value]


def join(transcript: str, text: str) -> str:
    """Return both as one text, with a space between them where BPE needs one.

    Without it "gospel." + "Actions" fuse into a token ".Actions", and first words are dropped;
    before Chinese or Japanese a space would make byte pieces of the first character.
    """
    touching = not transcript[-1:].isspace() and not text[:1].isspace()
    return f"{transcript} {text}" if touching and not _in(text[:1], CJK) else transcript + text


def max_new_tokens(text: str) -> int:
    """Return a generous limit of semantic tokens for `text`, and the one that ends them.

    It stops a model that does not find its end, and flags what is cut; no text that is read
    aloud needs as many. Upstream's runtime stops after 512 tokens, 10 seconds, without a word.
    """
    seconds = sum(_spoken_seconds(character) for character in text)
    return round((seconds * SLOWEST + SPARE_SECONDS) * TOKENS_PER_SECOND) + 1


def check_room(prompt: Prompt, new_tokens: int, max_sequence_tokens: int) -> None:
    """Raise TooLongError unless prompt and output fit into the engine's longest sequence."""
    needed = len(prompt.ids) + new_tokens
    if needed > max_sequence_tokens:
        raise TooLongError(
            f"text and reference are {len(prompt.ids)} tokens and the speech may be {new_tokens} "
            f"({new_tokens / TOKENS_PER_SECOND:.0f} s): {needed} in all, the model holds "
            f"{max_sequence_tokens}; send a shorter text or a shorter reference"
        )


def _spoken_seconds(character: str) -> float:
    category = unicodedata.category(character)
    if category[0] in "NS" or category == "Lu":
        return WORD_SECONDS
    if category[0] == "L" and (_in(character, CJK) or _in(character, HANGUL)):
        return SYLLABLE_SECONDS
    return LETTER_SECONDS


def _in(character: str, ranges: tuple[tuple[int, int], ...]) -> bool:
    return bool(character) and any(first <= ord(character) <= last for first, last in ranges)
