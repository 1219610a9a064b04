"""Writes numbers, dates, money, units and signs as the words that a reader says."""

from __future__ import annotations

import regex

from gateway.text import chinese, english

HAN = regex.compile(r"\p{Han}")
KANA = regex.compile(r"[\p{Hiragana}\p{Katakana}]")
LATIN = regex.compile(r"\p{Latin}")
LETTER = regex.compile(r"\p{L}")


def normalize(sentence: str, language: str | None) -> str:
    """Return the sentence with its numbers and signs in words; other words stay as they are.

    `language` is that of the caller or the voice; the script of the sentence comes first. English
    and Chinese are read; a sentence in any other language is returned unchanged, and so is one
    without letters where no language is given. May be called from several threads at once.
    """
    match _language(sentence, language):
        case "zh":
            return chinese.normalize(sentence)
        case "en":
            return english.normalize(sentence)
    return sentence


def _language(sentence: str, language: str | None) -> str | None:
    base = language.replace("_", "-").split("-")[0].lower() if language else None
    if KANA.search(sentence) or base == "ja":
        return "ja"
    if HAN.search(sentence):
        return "zh"
    if base in ("zh", None):
        letters = len(LETTER.findall(sentence))
        is_latin = letters > 0 and 2 * len(LATIN.findall(sentence)) > letters
        return "en" if is_latin else base
    return base
