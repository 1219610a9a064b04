"""Takes out of a text what nobody would say: markup, emoji, characters that are not seen."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import regex

from gateway.text.markdown import plain

if TYPE_CHECKING:
    from gateway.text.policy import Urls

# NFC alone: NFKC would read x² as x2. Fullwidth letters, digits and signs of calculation become
# ASCII all the same, fullwidth punctuation is Chinese and stays.
HALFWIDTH = {0xFEE0 + ord(sign): sign for sign in "#$%&*+-/<=>@_~"} | {
    code: chr(code - 0xFEE0)
    for code in (*range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))
}
# Bold, script and double-struck letters, which people use as a typeface.
TYPEFACES = {
    code: folded
    for code in range(0x1D400, 0x1D800)
    if (folded := unicodedata.normalize("NFKC", chr(code))) != chr(code)
}
LOOKALIKES = HALFWIDTH | TYPEFACES | {0x2011: "-", 0x203C: "!!", 0x2049: "!?"}

# Words in one line with marks of ordinary prose: nothing of what follows is in such a text, but
# for addresses and rows of marks. A dash at its beginning would be that of a list.
PROSE = regex.compile(r" *+(?![-–—])[A-Za-z0-9 .,;:?!'’‘\"“”()…–—-]*+")

# What colours a terminal.
ESCAPE = regex.compile(r"\x1b\[[0-9;?]*+[A-Za-z]")
NEWLINE = regex.compile(r"\r\n|[\r\v\f\x85\u2028\u2029]")
SPACE = regex.compile(r"[\p{Zs}\t]+")
BLANK_LINES = regex.compile(r"\n{3,}")
# Joiners decide how letters of Persian, Hindi and others look and are read.
JOINER = regex.compile(
    r"(?<![\p{Arabic}\p{Syriac}\p{Mongolian}\p{Devanagari}\p{Bengali}\p{Gurmukhi}\p{Gujarati}"
    r"\p{Oriya}\p{Tamil}\p{Telugu}\p{Kannada}\p{Malayalam}\p{Sinhala}\p{Khmer}\p{Mn}])"
    r"[\u200c\u200d]|[\u200c\u200d](?![\p{L}\p{M}])"
)
UNSEEN = regex.compile(
    r"[[\p{Cc}\p{Cf}\p{Cs}\p{Co}\uFFFC\uFFFD]--[\n\u200c\u200d\p{Prepended_Concatenation_Mark}]]",
    regex.V1,
)
# Emoji, flags, skin tones, keycaps; lines, blocks and shapes that draw pictures in text.
PICTURE = (
    r"[[\p{Extended_Pictographic}\p{Emoji_Modifier}\p{RI}\u20E3\uFE00-\uFE0F"
    r"\u2500-\u27BF\u2800-\u28FF\u2B00-\u2BFF]--[©®™\u2776-\u2793]]"
)
PICTURES = regex.compile(rf"(?: ?{PICTURE}\u200d?)+(?: (?=[.,!?;:…)\]]))?", regex.V1)

ADDRESS = regex.compile(
    r"( ?)(?<![0-9A-Za-z@])((?:(?:https?|ftp)://|www\.)[^\s<>\"“”‘’«»…\p{Han}\u3000-\u303F\uFF00-\uFFEF]++)",
    regex.I,
)
DOMAIN = regex.compile(r"(?:\w++://)?(?:[^/?#@]*+@)?(?:www\.)?([^/?#:]*+)", regex.I)
# A row of dots or lines fills a form or a table of contents; nobody says it.
ROWS = regex.compile(r"([.…·•‥!?,;:*+#=_~^|/\\<>-])\1{3,}")
SENTENCE_END = ".,;:!?'*_~|"


def sanitize(text: str, urls: Urls) -> str:
    """Return the text without what nobody would say; a blank line stays between paragraphs.

    Takes time in proportion to the text, whatever stands in it.
    """
    if not PROSE.fullmatch(text):
        # The second time takes out what stood there as an entity (&#8203;).
        text = _seen(plain(_seen(text)))
        text = JOINER.sub("", PICTURES.sub(_gap, text))
    if urls != "keep":
        text = ADDRESS.sub(_dropped if urls == "drop" else _shortened, text)
    return _tidy(ROWS.sub(_row, text))


def _seen(text: str) -> str:
    text = ESCAPE.sub("", text)
    text = unicodedata.normalize("NFC", text).translate(LOOKALIKES)
    return UNSEEN.sub("", SPACE.sub(" ", NEWLINE.sub("\n", text)))


def _gap(match: regex.Match[str]) -> str:
    """Return a space where the picture alone stood between two words."""
    start, end = match.span()
    before, after = match.string[max(0, start - 1) : start], match.string[end : end + 1]
    return " " if before.isalnum() and after.isalnum() else ""


def _row(match: regex.Match[str]) -> str:
    return match[1] * 3 if match[1] in ".!?…" else " "


def _split_address(match: regex.Match[str]) -> tuple[str, str]:
    """Return the address, and the marks behind it that belong to the sentence."""
    text = match[2]
    bare = text.rstrip(f"{SENTENCE_END})")
    unclosed = max(0, bare.count("(") - bare.count(")"))
    closing = len(text[len(bare) :]) - len(text[len(bare) :].lstrip(")"))
    end = len(bare) + min(unclosed, closing)
    return text[:end], text[end:]


def _shortened(match: regex.Match[str]) -> str:
    bare, behind = _split_address(match)
    domain = DOMAIN.match(bare)
    return f"{match[1]}{domain[1] if domain else bare}{behind}"


def _dropped(match: regex.Match[str]) -> str:
    return _split_address(match)[1]


def _tidy(text: str) -> str:
    lines = "\n".join(line.strip() for line in SPACE.sub(" ", text).split("\n"))
    return BLANK_LINES.sub("\n\n", lines).strip()
