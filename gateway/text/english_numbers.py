"""How English reads numbers in their surroundings: each function takes a match, gives the words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.text.english_words import (
    CURRENCIES,
    DOMAINS,
    MONTHS,
    PLURALS,
    SCALES,
    UNITS,
)
from gateway.text.spelling import cardinal, number, ordinal, spelled, year

if TYPE_CHECKING:
    import regex

    Match = regex.Match[str]

NOON = 12
SPOKEN_MARKS = {".": " dot ", "@": " at ", "/": " slash ", "-": " dash ", "_": " underscore "} | {
    ":": " colon ", "?": " question mark ", "=": " equals ", "&": " and ", "#": " hash ",
    "+": " plus ", "%": " percent ", "~": " tilde ",
}  # fmt: skip
TWINS = {"24/7": "twenty-four seven", "9/11": "nine eleven", "50/50": "fifty-fifty"}


def address(match: Match) -> str | None:
    """Read an e-mail address, a domain or a file's name; other words with dots are not ours."""
    host = match[0].rpartition("@")[2].partition("://")[2] or match[0].rpartition("@")[2]
    host = host.split("/")[0].split("?")[0].split(":")[0]
    if "@" not in match[0] and not DOMAINS.fullmatch(host.rpartition(".")[2]):
        return None
    words = "".join(
        SPOKEN_MARKS.get(c, f" {spelled(c)} " if c in "0123456789" else c) for c in match[0]
    )
    return " ".join(words.split()).replace("www dot", "w w w dot")


def digit_groups(match: Match) -> str | None:
    """Read a phone or serial number digit by digit, with a pause between its groups."""
    groups = "".join(c if c.isdigit() else " " for c in match[0]).split()
    plus = "plus " if match[0].startswith("+") else ""
    return plus + ", ".join(spelled(group) for group in groups)


def _date(day: int, month: int, year_digits: str | None) -> str | None:
    if not (1 <= day <= 31 and 1 <= month <= len(MONTHS)):  # noqa: PLR2004 - days of a month
        return None
    words = f"{MONTHS[month - 1]} {ordinal(str(day))}"
    return f"{words}, {year(year_digits)}" if year_digits else words


def iso_date(match: Match) -> str | None:
    """Read 2024-12-25; a T before a time becomes a comma."""
    words = _date(int(match["day"]), int(match["month"]), match["year"])
    return f"{words}, " if words and match["t"] else words


def slashed_date(match: Match) -> str | None:
    """Read 12/25/2024, month first unless that cannot be."""
    first, second = int(match["first"]), int(match["second"])
    month, day = (first, second) if first <= len(MONTHS) else (second, first)
    digits = match["year"]
    if len(digits) == 2:  # noqa: PLR2004 - the century is POSIX's guess
        digits = f"{20 if int(digits) < 69 else 19}{digits}"  # noqa: PLR2004
    return _date(day, month, digits)


def dotted_date(match: Match) -> str | None:
    """Read 25.12.2024, day first."""
    return _date(int(match["day"]), int(match["month"]), match["year"])


def _month(name: str) -> str:
    return next(month for month in MONTHS if month.startswith(name[:3]))


def month_day(match: Match) -> str | None:
    """Read March 3, Mar. 3rd, March 3-5, March 3, 2020."""
    if not 1 <= int(match["day"]) <= 31:  # noqa: PLR2004 - days of a month
        return None
    words = f"{_month(match['month'])} {ordinal(match['day'])}"
    words += f" to {ordinal(match['last'])}" if match["last"] else ""
    return f"{words}, {year(match['year'])}" if match["year"] else words


def day_month(match: Match) -> str | None:
    """Read 3 March 2020 and 3rd of March."""
    if not 1 <= int(match["day"]) <= 31:  # noqa: PLR2004 - days of a month
        return None
    the = "" if match.string[: match.start()].endswith("the ") else "the "
    words = f"{the}{ordinal(match['day'])} of {_month(match['month'])}"
    return f"{words}, {year(match['year'])}" if match["year"] else words


def month_year(match: Match) -> str:
    """Read Mar. 2020."""
    return f"{_month(match['month'])} {year(match['year'])}"


def year_range(match: Match) -> str | None:
    """Read 1914-1918, but not 1000-2000, which may count things."""
    first, last = match["first"], match["last"]
    if first.endswith("00") and last.endswith("00"):
        return None
    return f"{year(first)} to {year(last)}"


def decade(match: Match) -> str:
    """Read 1990s, '60s."""
    words = year(match["decade"])
    return f"{words[:-1]}ies" if words.endswith("y") else f"{words}s"


def clock(match: Match) -> str:
    """Read 3:45 pm, 15:30, 3:45:20."""
    hour, minute, half = int(match["hour"]), match["minute"], _half(match["half"])
    words = cardinal(str(hour))
    if minute and minute != "00":
        words += f" oh {cardinal(minute[1])}" if minute[0] == "0" else f" {cardinal(minute)}"
    elif not half and not match["second"]:
        words = "midnight" if hour in (0, 24) else words
        words += " o'clock" if 0 < hour <= NOON else " hundred" if NOON < hour < 2 * NOON else ""
        words += " zero zero" if hour > 2 * NOON else ""
    if match["second"]:
        words += f" and {cardinal(str(int(match['second'])))} seconds"
    return words + half


def half_day(match: Match) -> str:
    """Read 10am."""
    return cardinal(match["hour"]) + _half(match["half"])


def _half(half: str | None) -> str:
    return f" {half[0].upper()}M" if half else ""


def money(match: Match) -> str:
    """Read $5.99, €5-10, £20m, 50 EUR, $20/month."""
    one, many, part = CURRENCIES[match["sign"]]
    amount, scale, last = match["amount"], match["scale"], match["last"]
    per = f" per {match['per']}" if match["per"] else ""
    whole, point, decimals = amount.partition(".")
    if scale or last:
        until = f" to {number(last)}" if last else ""
        scale = f" {SCALES.get(scale.strip(), scale.strip())}" if scale else ""
        return f"{number(amount)}{until}{scale} {many}{per}"
    if not point or len(decimals) != 2 or not part:  # noqa: PLR2004 - hundredth parts
        return f"{number(amount)} {one if amount == '1' else many}{per}"
    part = part if decimals == "01" else PLURALS.get(part, f"{part}s")
    parts = f"{cardinal(str(int(decimals)))} {part}"
    wholes = f"{cardinal(whole or '0')} {one if whole == '1' else many}"
    if int(decimals) == 0:
        return wholes + per
    return (parts if whole in ("", "0") else f"{wholes} and {parts}") + per


def unit(match: Match) -> str:
    """Read 5 km, 1 kg, 10-kg, 5%."""
    one, many = UNITS[match["unit"]]
    is_one = match["amount"] == "1" or match["gap"] == "-"
    words = f"{number(match['amount'])}{match['gap'] or ' '}{one if is_one else many}"
    return f"{words} per {match['per']}" if match["per"] else words


def fraction(match: Match) -> str:
    """Read 1/2, 3 1/2, 24/7, 10/10."""
    over, under = match["over"], match["under"]
    whole = match["whole"]
    if not whole and match[0] in TWINS:
        return TWINS[match[0]]
    if int(over) >= int(under) or int(under) > 100:  # noqa: PLR2004 - larger ones are scores
        lead = f"{cardinal(whole)} " if whole else ""
        return f"{lead}{cardinal(over)} out of {cardinal(under)}"
    name = {"2": "half", "4": "quarter"}.get(under) or ordinal(under)
    if whole:
        top = "a" if over == "1" and under in "24" else cardinal(over)
        return f"{cardinal(whole)} and {top} {name}{'' if over == '1' else 's'}"
    return f"{cardinal(over)} {name}{'' if over == '1' else 's'}"


def version(match: Match) -> str:
    """Read v1.2.3, 1.2.3 and 192.168.0.1."""
    parts = match["parts"].split(".")
    is_internet = not match["v"] and len(parts) == 4 and all(int(p) < 256 for p in parts)  # noqa: PLR2004
    if is_internet:
        return " dot ".join(spelled(part) for part in parts)
    words = " point ".join(cardinal(part) for part in parts)
    return f"version {words}" if match["v"] else words


def pairs(digits: str) -> str:
    """Read the number of a room, a flight or an aeroplane: "seven forty-seven"."""
    if len(digits) == 4:  # noqa: PLR2004 - two pairs
        return year(digits)
    tail = digits[1:]
    if tail == "00":
        return cardinal(digits)
    spoken = f"oh {cardinal(tail[1])}" if tail[0] == "0" else cardinal(tail)
    return f"{cardinal(digits[0])} {spoken}"


ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50}


def roman(numeral: str) -> str:
    """Return the digits of a Roman numeral up to 89."""
    values = [ROMAN[letter] for letter in numeral]
    signs = [-1 if v < w else 1 for v, w in zip(values, [*values[1:], 0], strict=True)]
    return str(sum(value * sign for value, sign in zip(values, signs, strict=True)))
