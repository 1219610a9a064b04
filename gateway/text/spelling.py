"""Numbers as words, by the rules of Unicode's CLDR; the one place of unicode-rbnf."""

from __future__ import annotations

from functools import lru_cache

from unicode_rbnf import RbnfEngine

LONGEST_NUMBER = 15
"""Numbers with more digits than this are read digit by digit: nobody says their names."""
YI = 10**8
CHINESE_DIGITS = "零一二三四五六七八九"
ENGLISH_DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@lru_cache(maxsize=2)
def _rules(language: str) -> RbnfEngine:
    return RbnfEngine.for_language(language)


@lru_cache(maxsize=4096)
def _spell(language: str, number: int, ruleset: str) -> str:
    return _rules(language).format_number(number, ruleset_names=[f"spellout-{ruleset}"]).text


def cardinal(digits: str) -> str:
    """Return "one thousand five" for "1005" or "1,005"."""
    digits = digits.replace(",", "")
    if len(digits) > LONGEST_NUMBER or (digits.startswith("0") and len(digits) > 1):
        return spelled(digits)
    return _spell("en", int(digits), "cardinal")


def ordinal(digits: str) -> str:
    """Return "twenty-first" for "21"."""
    digits = digits.replace(",", "")
    if len(digits) > LONGEST_NUMBER:
        return f"{spelled(digits)}th"
    return _spell("en", int(digits), "ordinal")


def year(digits: str) -> str:
    """Return "nineteen oh-five" for "1905"."""
    return _spell("en", int(digits), "numbering-year")


def spelled(digits: str) -> str:
    """Return "zero zero seven" for "007"."""
    return " ".join(ENGLISH_DIGITS[int(digit)] for digit in digits)


def number(text: str) -> str:
    """Return the words of a number that may have groups of three and a decimal point."""
    whole, point, decimals = text.partition(".")
    words = cardinal(whole) if whole else ""
    return f"{words} point {spelled(decimals)}".strip() if point else words


def chinese_cardinal(digits: str) -> str:
    """Return 一千二百零五 for "1205", 两千 for "2000"; two alone is 二."""
    digits = digits.replace(",", "")
    if len(digits) > LONGEST_NUMBER or (digits.startswith("0") and len(digits) > 1):
        return chinese_digits(digits)
    value = int(digits)
    if value < YI:
        words = _spell("zh", value, "cardinal")
        return f"两{words[1:]}" if words[0] == "二" and words[1:2] in ("百", "千", "万") else words
    # CLDR counts 10^12 as 一兆, which nobody says on the mainland.
    high, low = divmod(value, YI)
    gap = "零" if 0 < low < YI // 10 else ""
    rest = _spell("zh", low, "cardinal") if low else ""
    return f"{chinese_cardinal(str(high))}亿{gap}{rest}"


def chinese_digits(digits: str, one: str = "一") -> str:
    """Return 一九八四 for "1984"; `one` is 幺 where numbers are dialled."""
    return "".join(one if digit == "1" else CHINESE_DIGITS[int(digit)] for digit in digits)


def chinese_number(text: str) -> str:
    """Return the words of a number that may have groups of three and a decimal point."""
    whole, point, decimals = text.partition(".")
    words = chinese_cardinal(whole or "0")
    return f"{words}点{chinese_digits(decimals)}" if point else words
