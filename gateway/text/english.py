"""English: the rules that find numbers, signs and abbreviations, in the order they are tried."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import regex

from gateway.text import english_numbers as say
from gateway.text.english_words import (
    ABBREVIATIONS,
    COUNTED,
    CURRENCIES,
    LABELS,
    ROMAN_AFTER,
    RULERS,
    SIGNS,
    SUBSCRIPTS,
    SUPERSCRIPTS,
    TITLES,
    UNITS,
    VULGAR,
    YEAR_AFTER,
)
from gateway.text.spelling import cardinal, number, ordinal, year

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Say: TypeAlias = "Callable[[regex.Match[str]], str | None]"

NUMBER = r"(?:\d{1,3}(?:,\d{3})++(?![\d])(?:\.\d++)?+|\d++(?:\.\d++)?+|(?<![\w.])\.\d++)"
MONTH = (
    r"(?P<month>January|February|March|April|May|June|July|August|September|October|November|"
    r"December|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?)"
)
TH = r"(?:st|nd|rd|th)"
HALF = r"(?P<half>[AaPp]\.\s?[Mm]\.|[ap]m\b|[AP]M\b)"
YEAR = r"(?:1\d\d\d|20\d\d)"
PER = (
    r"(?:\s?/\s?(?P<per>second|minute|hour|day|night|week|month|year|person|student|user|kilo|"
    r"pound|liter|litre|gallon|mile|unit|ton|piece|share)\b)?"
)
SCALE = r"(?P<scale> ?(?:thousand|million|billion|trillion|bn|mn|tn|[kKmMbBT])\b)?"


def _any(words: Iterable[str]) -> str:
    return "|".join(regex.escape(word) for word in sorted(words, key=len, reverse=True))


CODES = [code for code in CURRENCIES if code.isalpha()]
MONEY_SIGN = _any(CURRENCIES)


def _replace(pattern: str, words: str | Say, flags: int = 0) -> tuple[regex.Pattern[str], Say]:
    return regex.compile(pattern, flags), (lambda _: words) if isinstance(words, str) else words


def _year(match: regex.Match[str]) -> str | None:
    """Say a number from 1000 to 2099 as a year where it is one; else leave it."""
    is_recent = int(match["year"]) >= 1900  # noqa: PLR2004 - older ones need a word before them
    after = match.string[match.end() : match.end() + 40]
    if COUNTS.match(after) and not (is_recent and match["on"]):
        return None
    return f"{match['on'] or ''}{year(match['year'])}" if match["on"] or is_recent else None


COUNTS = regex.compile(
    r" (?!(?:was|is|has|as|us|this|its|does|always|perhaps|across|yes)\b)"
    r"(?:[a-z]+s\b|people|men\b|women|children|of\b|more\b|[A-Z]?[a-z]+ (?:people|men|women))"
)


def _roman(match: regex.Match[str]) -> str | None:
    if not match["roman"]:
        return None  # "John Lennon": each part of the pattern may be empty.
    digits = say.roman(match["roman"])
    if match["ruler"]:
        return f"{match['ruler']} the {ordinal(digits)}" if int(digits) > 1 else None
    return f"{match['thing']} {cardinal(digits)}"


RULES = (
    _replace(
        r"(?<![\w.@+-])(?:\w++://)?(?:[\w.+-]++@)?[A-Za-z0-9_-]++(?:\.[A-Za-z0-9_-]++)++"
        r"(?::\d++)?(?:[/?#](?:[\w/=&#%+~@-]|[.?:,](?=[\w/]))*+)?",
        say.address,
    ),
    _replace(r"[½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞]", lambda match: VULGAR[match[0]]),
    # Phone and serial numbers.
    _replace(r"(?<![\w+])\+\d{1,3}(?:[ .-]?\(?\d{1,4}\)?){2,5}(?![\w-])", say.digit_groups),
    _replace(r"(?<!\w)\(\d{3}\) ?\d{3}[-. ]\d{4}\b", say.digit_groups),
    _replace(r"(?<![\w.-])(?:1[-. ])?\d{3}[-.]\d{3}[-.]\d{4}(?![\w-])", say.digit_groups),
    _replace(r"(?<![\w.$-])[2-9]\d\d-(?:0\d{3}|\d\d(?!00)\d\d)(?![\w-])", say.digit_groups),
    _replace(r"(?<=\b(?:[Cc]all|[Dd]ial) )\d{3}\b(?! [a-z]+s\b)", say.digit_groups),
    # Dates.
    _replace(
        r"(?<![\w/.-])(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})"
        r"(?:(?P<t>T)(?=\d)|(?![\w/-]))",
        say.iso_date,
    ),
    _replace(
        r"(?<![\w/.-])(?P<first>\d{1,2})/(?P<second>\d{1,2})/(?P<year>\d{4}|\d\d)(?![\w/])",
        say.slashed_date,
    ),
    _replace(
        r"(?<![\w/.-])(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})(?!\w)",
        say.dotted_date,
    ),
    _replace(
        rf"(?<!\w){MONTH} (?P<day>\d{{1,2}}){TH}?(?:[-–](?P<last>\d{{1,2}}){TH}?)?"
        rf"(?:,? (?P<year>{YEAR}))?(?![\w%]|[.,:/]\d)",
        say.month_day,
    ),
    _replace(
        rf"(?<![\w.,:-])(?P<day>\d{{1,2}}){TH}? (?:of )?{MONTH}(?:,? (?P<year>{YEAR}))?(?!\w)",
        say.day_month,
    ),
    _replace(rf"(?<!\w){MONTH},? (?P<year>{YEAR})(?!\w)", say.month_year),
    _replace(r"(?<![\w.-])\d++(?:-\d++){3,}+(?!\w)|(?<![\w.-])\d{3}-\d\d-\d{4}", say.digit_groups),
    # Years and decades, before ranges take their dashes.
    _replace(rf"(?<![\w.,$-])(?P<first>{YEAR})\s?[-–]\s?(?P<last>{YEAR})(?![\w-])", say.year_range),
    _replace(r"(?<![\w.,])(?P<decade>(?:1\d|20)\d0)['’]?s\b", say.decade),
    _replace(
        r"(?:['’]|(?<=\b(?i:the|her|his|their|my|our|your|late|early|mid)[ -]))"
        r"(?P<decade>[1-9]0)['’]?s\b",
        say.decade,
    ),
    _replace(
        rf"(?<![\w&])({_any(LABELS)})\s?(?=[-−]?[$€£¥₹]?\.?\d)",
        lambda match: LABELS[match[1]] + " ",
    ),
    _replace(r"(?<![\w)\]%°.−–-])[-−](?=[$€£¥₹]?\.?\d)", "minus "),
    # Money, with its own ranges.
    _replace(
        rf"(?<!\w)(?P<sign>{MONEY_SIGN})\s?(?P<amount>{NUMBER})"
        rf"(?:\s?[-–]\s?(?P=sign)?(?P<last>{NUMBER}))?{SCALE}{PER}",
        say.money,
    ),
    _replace(
        rf"(?<![\w.,])(?P<amount>{NUMBER})(?:\s?[-–]\s?(?P<last>{NUMBER}))?{SCALE}\s?"
        rf"(?P<sign>[€£₹₩₽]|(?:{_any(CODES)})\b){PER}",
        say.money,
    ),
    # What stands between numbers.
    _replace(
        r"(?<=\d|\d%|\d ?[ap]m|[ap]\.m\.|\d ?(?:km|cm|mm|kg|°|°C|°F))(?:\s?[–—]\s?|[-~])(?=\d)",
        " to ",
    ),
    _replace(r"(?<=\d) [-−] (?=\d)|(?<=\d)−(?=\d)", " minus "),
    _replace(
        rf"(?<![\d:.])(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?"
        rf"(?![\d:])(?: ?{HALF})?",
        say.clock,
    ),
    _replace(rf"(?<![\d:.])(?P<hour>1?\d)\.(?P<minute>[0-5]\d)(?P<second>) ?{HALF}", say.clock),
    _replace(rf"(?<![\d:.])(?P<hour>\d{{1,2}}) ?{HALF}", say.half_day),
    _replace(
        r"(?<![\d:.])(?P<hour>\d\d):(?P<minute>[0-5]\d)(?P<second>)(?P<half>)(?![\d:])", say.clock
    ),
    _replace(r"(?<=(?<![\w:.])\d++):(?=\d++(?![\w:]))", " to "),
    _replace(
        r"(?<![\d/.])(?:(?P<whole>\d++)[ -])?(?P<over>\d{1,3})/(?P<under>\d{1,3})(?![\d/])",
        say.fraction,
    ),
    _replace(r"(?<=(?<![\w.])\d{1,3}\.\d{1,3})/(?=\d{1,3}(?![\w/.]\d))", " out of "),
    _replace(r"\b(?P<v>[vV])\.?(?P<parts>\d++(?:\.\d++)*+)(?!\w)", say.version),
    _replace(r"(?<![\w.])(?P<v>)(?P<parts>\d++(?:\.\d++){2,}+)(?!\w)", say.version),
    _replace(
        r"(?<!\w)(\d)['′] ?(\d{1,2})(?:[\"″]|''|(?!\w))",
        lambda match: f"{cardinal(match[1])} foot {cardinal(match[2])}",
    ),
    _replace(
        rf"(?<![\w.,])(?P<amount>{NUMBER})(?P<gap>[ -]?)(?P<unit>{_any(UNITS)})(?![\w²³]){PER}",
        say.unit,
    ),
    _replace(r"(?<![\w.,])(\d[\d,]*+)(?:st|nd|rd|th)\b", lambda match: ordinal(match[1])),
    _replace(
        rf"\b(?:(?P<thing>{ROMAN_AFTER})|(?P<ruler>{RULERS})) "
        r"(?P<roman>(?=[IVXL])(?:XL|L?X{0,3})(?:IX|IV|V?I{0,3}))\b(?!['’.]\w)",
        _roman,
    ),
    _replace(rf"(?<=\b(?:{COUNTED}) )[1-9]\d\d\d?\b(?![.,]\d)", lambda match: say.pairs(match[0])),
    _replace(r"(?<!\w)(1080|1440|720|480|360)p\b", lambda match: f"{say.pairs(match[1])} p"),
    _replace(
        rf"(?P<on>\b(?i:{YEAR_AFTER}) )?(?<![\w.,$€£#/-])(?P<year>{YEAR})(?![\w%°]|[.,:/-]\d)",
        _year,
    ),
    _replace(r"(?<=\d|\w)[²³]", lambda match: SUPERSCRIPTS[match[0]]),
    *(_replace(pattern, words) for pattern, words in SIGNS),
    _replace(r"(?<=(?<!\w)\d)M\b", "million"),
    _replace(r"(?<=(?<!\w)\d)bn\b", "billion"),
    _replace(r"(?<=\d)x(?=\d)", "by"),
    _replace(r"(?<=\d)x\b", "times"),
    _replace(NUMBER, lambda match: number(match[0])),
    # Abbreviations.
    _replace(r"(?<!\w)(?:Mr|Mrs|Ms)\.(?=\s)", lambda match: TITLES[match[0]]),
    _replace(
        r"(?<!\w)(?:(?<!\p{Lu}\w{1,20} )St\.|(?:Dr|Mr|Mrs|Ms|Prof)\b\.?|"
        rf"(?:{_any(TITLES.keys() - {'St.'})}))(?=\s\p{{Lu}})",
        lambda match: TITLES[match[0].rstrip(".") + "."],
    ),
    _replace(rf"(?<!\w)(?:{_any(ABBREVIATIONS)})(?!\w)", lambda match: ABBREVIATIONS[match[0]]),
    _replace(r"(?<=\p{Lu}\w{1,20} )v\.(?= \p{Lu})", "versus"),
    # Dashes between words are a pause; models read them as minus, or not at all.
    _replace(r"(?<=[\w%\"”’)])(?:\s*+(?:—|--)\s*+| [–-] )(?=[\w\"“‘(])", ", "),
)


def normalize(sentence: str) -> str:
    """Return an English sentence with its numbers, signs and abbreviations in words."""
    sentence = sentence.translate(SUBSCRIPTS)
    for pattern, words in RULES:
        sentence = pattern.sub(partial(_put, words), sentence)
    return sentence


def _put(say_it: Say, match: regex.Match[str]) -> str:
    """Return the words with a space where they would touch others; None leaves what was there.

    The full stop of an abbreviation that ended the sentence goes on ending it.
    """
    words = say_it(match)
    if not words:
        return match[0]
    start, end = match.span()
    before, after = match.string[max(0, start - 1) : start], match.string[end : end + 1]
    if match[0].endswith(".") and not words.endswith("."):
        words += "" if match.string[end : end + 20].strip(' \n"”’)') else "."
    lead = " " if (before.isalnum() or before in (",", ")", "+")) and words[0].isalnum() else ""
    tail = " " if (after.isalnum() or after == "(") and words[-1].isalnum() else ""
    return f"{lead}{words}{tail}"
