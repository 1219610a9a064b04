"""Cuts a text into sentences, and sentences into segments that a model speaks well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import regex
from sentencex import segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

GROWTH = 3
"""A segment is at most this many times as long as the one before: a model that needs a third of
the playing time has the next one ready before the listener hears the end of this one."""

BLOCK_CHARACTERS = 2000
BLOCK = regex.compile(rf"(?s).{{1,{BLOCK_CHARACTERS}}}(?:(?<=\s)|$)|.{{1,{BLOCK_CHARACTERS}}}")
# A line, with those after it that go on with a small letter, and the blank lines behind.
LINE = regex.compile(r"(?:[^\n]|\n(?=\p{Ll}))++\n*+|\n++")
# The number of a list belongs to what follows.
LIST_NUMBER = regex.compile(r"\s*\d{1,3}[.)]\s*")
# What sentencex does not know: abbreviations before a number and a name ...
ABBREVIATED = regex.compile(
    r"(?i)\b(?:approx|ca|ed|eq|est|figs?|nos|pp?|sec|vol)\.\s*$|\b(?-i:Ms|Mx|Messrs)\.\s*$"
)
# ... and that a sentence may end with a bracket, or with "no".
ENDS_TOO = regex.compile(r"(?:(?<=[.!?][)\]]\s)|(?<=\b[Nn]o\.\s))(?=[\p{Lu}“\"(\[])", regex.V1)

SPEAKABLE = regex.compile(r"[\p{L}\p{N}]")
CLAUSE = regex.compile(r"[,;:–)\]][\"'”’»]*+\s++|—\s*+|[、，；：。！？…」』）】؛،।]++\s*+")
LAST_SPEAKABLE = regex.compile(r"(?r)[\p{L}\p{N}]")
GAP = regex.compile(r"\s++")
GRAPHEME = regex.compile(r"\X")


def sentences(text: str) -> list[str]:
    """Split a text; the sentences joined are the text, and each has something speakable if one has.

    Abbreviations, initials, decimals and addresses do not end a sentence; a line does, unless it
    goes on with a small letter.
    """
    return list(_speakable(piece for line in LINE.findall(text) for piece in _sentences(line)))


def pack(sentences: Iterable[str], first: int, most: int) -> Iterator[str]:
    """Join short sentences and cut long ones, so that each segment suits the model.

    The first segment is one sentence, cut if it has more than `first` characters; those after it
    are at most GROWTH times as long as the one before (but may always have `first` characters)
    and never longer than `most`. Takes no more sentences than the next segment needs. The
    segments joined are the sentences joined.
    """
    limit, is_first, waiting = min(first, most), True, ""
    for sentence in sentences:
        if len(waiting) + len(sentence) > limit and SPEAKABLE.search(waiting):
            yield waiting
            limit, waiting = _next_limit(waiting, first, most), ""
        *pieces, waiting = _cut(waiting + sentence, limit, first, most)
        yield from pieces
        limit = _next_limit(pieces[-1], first, most) if pieces else limit
        is_first = is_first and not pieces
        if is_first and SPEAKABLE.search(waiting):
            yield waiting
            limit, waiting, is_first = _next_limit(waiting, first, most), "", False
    if waiting:
        yield waiting


def _next_limit(segment: str, first: int, most: int) -> int:
    return min(most, max(first, GROWTH * len(segment)))


def _sentences(line: str) -> Iterator[str]:
    """Split a line block by block: sentencex is quadratic where marks stand in long rows."""
    ending = line[len(line.rstrip("\n")) :]
    open_sentence = ""
    for block in BLOCK.findall(line.rstrip("\n")):
        *whole, open_sentence = segment("en", open_sentence + block)
        for sentence in whole:
            yield from ENDS_TOO.split(sentence)
        if len(open_sentence) > BLOCK_CHARACTERS:
            yield open_sentence
            open_sentence = ""
    *whole, last = ENDS_TOO.split(open_sentence)
    yield from whole
    yield last + ending


def _speakable(pieces: Iterable[str]) -> Iterator[str]:
    """Join each piece that has nothing to speak with the one before, or else the one after.

    The number of a list and what ends with an abbreviation are joined with the one after.
    """
    waiting: list[str] = []
    is_whole = False
    for piece in pieces:
        has_speakable = SPEAKABLE.search(piece) is not None
        if is_whole and has_speakable:
            yield "".join(waiting)
            waiting = []
            is_whole = False
        waiting.append(piece)
        is_whole = not _is_unfinished(piece) if has_speakable else is_whole
    if waiting:
        yield "".join(waiting)


def _is_unfinished(piece: str) -> bool:
    return bool(LIST_NUMBER.fullmatch(piece) or ABBREVIATED.search(piece[-12:]))


def _cut(text: str, limit: int, first: int, most: int) -> Iterator[str]:
    """Yield pieces within their limits; the last one is what remains, perhaps with room left."""
    last = LAST_SPEAKABLE.search(text)
    start = 0
    while len(text) - start > limit:
        end = _end(text, start, limit, last.start() if last else 0)
        yield text[start:end]
        limit = _next_limit(text[start:end], first, most)
        start = end
    yield text[start:]


def _end(text: str, start: int, limit: int, last: int) -> int:
    """Return where a piece that begins at `start` best ends, at most `limit` characters on.

    That is after a clause unless the piece gets very short, else after a word, else between two
    characters as a reader sees them; if possible, so that the piece and what follows (up to the
    letter at `last`) have something to speak.
    """
    most = start + limit
    window = text[start : most + 1]
    speakable = SPEAKABLE.search(text, start, most)
    least = speakable.end() if speakable else most + 1
    for mark, shortest in ((CLAUSE, start + limit // 3), (GAP, start), (GRAPHEME, start)):
        ends = [start + match.end() for match in mark.finditer(window)]
        fitting = [end for end in ends if max(least, shortest) <= end <= min(most, last)]
        if fitting:
            return fitting[-1]
    whole = [match.end() for match in GRAPHEME.finditer(window) if match.end() <= limit]
    return start + whole[-1] if whole else most
