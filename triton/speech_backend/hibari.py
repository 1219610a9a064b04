"""The embedded voice: hibari-tts (Apache-2.0, English, 24 kHz), spoken sentence by sentence.

Faults measured on hibari 0.2.1 and handled here: 0.31 s of silence before every sentence is
trimmed; speech at -26 dBFS is raised by 7 dB (peaks of 0.40 become 0.90, and the rare ones that
would pass full scale are clipped); a text without punctuation, of which 5 000 characters cost
2.2 GB and 14 s in one piece, is split hard; letters of other scripts, which it drops or reads
as noise, are an error; one thread and a fixed seed make the output byte-stable.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from hibari import Hibari

from speech_backend.serving import InvalidInputError
from speech_wire import PcmChunk, SynthesisRequest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    import numpy.typing as npt

SAMPLE_RATE_HZ = Hibari.sample_rate
MAX_SEGMENT_CHARACTERS = 200
MAX_PHONEMES = 400
CHUNK_SAMPLES = SAMPLE_RATE_HZ // 2
GAIN = 10 ** (7 / 20)
SPEECH_THRESHOLD = 0.003
LEAD_SECONDS = 0.02
JOIN_TAIL_SECONDS = 0.05

# Letters that the voice reads by name although they belong to no Latin word.
SYMBOL_LETTERS = frozenset("µπΩªº")
SILENT_PHONEMES = re.compile(r"[\s.,!?;:…—–\-\"'“”‘’()\[\]]*")
CLAUSE_END = re.compile(r"(?<=[,;:—–])\s+")


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of text that is spoken at once; the voice pauses after a whole sentence."""

    text: str
    ends_sentence: bool


@dataclass(frozen=True, slots=True)
class Utterance:
    """The phonemes that the voice's network sees at once."""

    phonemes: str
    ends_sentence: bool


class HibariSpeaker:
    """Speaks requests of the contract with the voices whose files are present."""

    def __init__(self, voices: Sequence[str]) -> None:
        self._voices = {name: Hibari(voice=name, threads=1) for name in voices}
        self._default = voices[0]
        for voice in self._voices.values():
            voice("Warm up.", seed=0)

    def synthesize(self, request: SynthesisRequest) -> Generator[PcmChunk, None, None]:
        """Yield chunks of at most half a second; raises InvalidInputError before the first."""
        name = request.voice or self._default
        if name not in self._voices:
            raise InvalidInputError(f"voice '{name}' is not here; there are {list(self._voices)}")
        text = plain(request.target_text)
        check_speakable(text)
        voice, offset = self._voices[name], 0
        # All phonemes first (1 ms a sentence): what cannot be read must be known before any sound.
        utterances = iter(_utterances(voice, text))
        utterance = next(utterances, None)
        if utterance is None:
            raise InvalidInputError("the text has nothing that can be spoken")
        while utterance is not None:
            samples = voice.from_phonemes(utterance.phonemes, seed=request.seed or 0)
            samples = np.clip(samples * np.float32(GAIN), -1.0, 1.0)
            samples = trim(samples, keep_pause=utterance.ends_sentence)
            utterance = next(utterances, None)
            yield from _chunks(samples, offset, is_last=utterance is None)
            offset += len(samples)


def _utterances(voice: Hibari, text: str) -> list[Utterance]:
    utterances = []
    for segment in split_segments(text):
        # A symbol can become many phonemes: 200 of "^" would be 150 s of sound in one piece.
        pieces = [
            piece
            for phonemes in _phonemize(voice, segment.text)
            for piece in _split_long(phonemes, MAX_PHONEMES)
            if not SILENT_PHONEMES.fullmatch(piece)
        ]
        utterances += [Utterance(piece, ends_sentence=False) for piece in pieces[:-1]]
        utterances += [
            Utterance(piece, ends_sentence=segment.ends_sentence) for piece in pieces[-1:]
        ]
    return utterances


def _phonemize(voice: Hibari, text: str) -> list[str]:
    try:
        phonemes: list[str] = voice.phonemize(text)
    except Exception as error:
        # Its rules fail on some input, such as a number of 37 digits.
        raise InvalidInputError(f"this voice cannot read {text!r}") from error
    return phonemes


def _chunks(samples: npt.NDArray[np.float32], offset: int, *, is_last: bool) -> Iterator[PcmChunk]:
    for start in range(0, len(samples), CHUNK_SAMPLES):
        end = start + CHUNK_SAMPLES
        reason = "stop" if is_last and end >= len(samples) else None
        yield PcmChunk(samples[start:end], SAMPLE_RATE_HZ, offset + start, reason)


def plain(text: str) -> str:
    """Return the text as the voice knows it: composed letters (macOS decomposes), ' for U+02BC."""
    return unicodedata.normalize("NFC", text).replace("\u02bc", "'")


def check_speakable(text: str) -> None:
    """Raise InvalidInputError for a letter of a script that the voice cannot read."""
    for character in text:
        if not character.isalpha() or character in SYMBOL_LETTERS:
            continue
        name = unicodedata.name(character, "an unnamed letter")
        if not name.startswith(("LATIN", "FEMININE", "MASCULINE")):
            raise InvalidInputError(
                f"this voice speaks English only; the text has '{character}' ({name})"
            )


def split_segments(text: str) -> list[Segment]:
    """Split into sentences, and those longer than MAX_SEGMENT_CHARACTERS at clauses, then words."""
    segments = []
    for sentence in Hibari.split_sentences(text):
        pieces = list(_split_long(sentence.strip(), MAX_SEGMENT_CHARACTERS))
        segments += [Segment(piece, ends_sentence=False) for piece in pieces[:-1]]
        segments.append(Segment(pieces[-1], ends_sentence=True))
    return segments


def _split_long(sentence: str, limit: int) -> Iterator[str]:
    while len(sentence) > limit:
        clause_ends = [m.start() for m in CLAUSE_END.finditer(sentence, 0, limit + 1)]
        cut = clause_ends[-1] if clause_ends else sentence.rfind(" ", 1, limit + 1)
        cut = cut if cut > 0 else limit
        yield sentence[:cut]
        sentence = sentence[cut:].lstrip()
    yield sentence


def trim(samples: npt.NDArray[np.float32], *, keep_pause: bool) -> npt.NDArray[np.float32]:
    """Cut the silence before the speech, and the pause after it unless it ends a sentence."""
    loud = np.flatnonzero(np.abs(samples) > SPEECH_THRESHOLD)
    if len(loud) == 0:
        return samples
    start = max(0, loud[0] - int(LEAD_SECONDS * SAMPLE_RATE_HZ))
    end = len(samples) if keep_pause else loud[-1] + int(JOIN_TAIL_SECONDS * SAMPLE_RATE_HZ)
    return samples[start:end]
