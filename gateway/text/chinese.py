"""Chinese: the rules that find numbers and signs, in the order they are tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import regex

from gateway.text.spelling import chinese_cardinal, chinese_digits, chinese_number

if TYPE_CHECKING:
    from collections.abc import Callable

Say: TypeAlias = "Callable[[regex.Match[str]], str]"

NUMBER = r"(?:\d{1,3}(?:,\d{3})++(?!\d)(?:\.\d++)?+|\d++(?:\.\d++)?+)"
SCALE = r"(?:十|百|千|万亿|百万|千万|万|亿)?"
TO = r"\s?(?:[-–—~～至]|——)\s?"
# Digits after these words are dialled or spelled out, one by one.
DIALLED = (
    "电话|手机|热线|拨打|拨|致电|号码|邮编|密码|验证码|尾号|工号|学号|账号|卡号|证号|编号|车牌|"
    "QQ|微信|房间|航班|报警"
)
# After these words two is 两.
COUNTED = (
    r"[个只次册位张条件种本块元斤米天小时分钟秒周年倍双对套间家台辆架艘部首支颗棵片份碗杯瓶盒箱袋包口名人场岁"
    r"千万亿公升吨句篇页项层栋座门封笔匹头朵束群段道]|点(?!\d)"
)
# Before these it stays 二: the second floor, the second month, the second grade.
NUMBERED = r"(?:年级|年代|月|日|号|楼|班|线|环)"
CURRENCIES = {
    "¥": "元", "￥": "元", "CNY": "元", "RMB": "元", "US$": "美元", "USD": "美元", "HK$": "港元",
    "$": "美元", "€": "欧元", "EUR": "欧元", "£": "英镑", "GBP": "英镑", "₹": "卢比", "₩": "韩元",
    "JPY": "日元",
}  # fmt: skip
UNITS = {
    "km/h": "公里每小时", "m/s": "米每秒", "km²": "平方公里", "m²": "平方米", "㎡": "平方米",
    "cm²": "平方厘米", "m³": "立方米", "cm³": "立方厘米", "km": "公里", "m": "米", "cm": "厘米",
    "mm": "毫米", "μm": "微米", "nm": "纳米", "kg": "千克", "g": "克", "mg": "毫克", "t": "吨",
    "L": "升", "l": "升", "ml": "毫升", "mL": "毫升", "℃": "摄氏度", "°C": "摄氏度",
    "℉": "华氏度", "°F": "华氏度", "°": "度", "Hz": "赫兹", "kHz": "千赫兹", "MHz": "兆赫兹",
    "GHz": "吉赫兹", "W": "瓦", "kW": "千瓦", "kWh": "千瓦时", "V": "伏", "mAh": "毫安时",
    "min": "分钟", "h": "小时", "s": "秒", "ms": "毫秒", "dB": "分贝", "Pa": "帕", "kPa": "千帕",
    "kcal": "千卡", "Mbps": "兆比特每秒", "Ω": "欧姆",
}  # fmt: skip
SIGNS = (
    (r"(?<=[\w)）])\s*+\+\s*+(?=[\w(（])", "加"),
    (r"\s?+[×✕]\s?+|(?<=\d)\s?+\*\s?+(?=\d)", "乘以"),
    (r"\s?+÷\s?+", "除以"),
    (r"(?<=[\w)）])\s*+=\s*+(?=[\w(（])", "等于"),
    (r"\s?+≠\s?+", "不等于"),
    (r"\s?+[≥⩾]\s?+", "大于等于"),
    (r"\s?+[≤⩽]\s?+", "小于等于"),
    (r"(?<=\w)\s*+>\s*+(?=\w)|>(?=\d)", "大于"),
    (r"(?<=\w)\s*+<\s*+(?=\w)|<(?=\d)", "小于"),
    (r"[≈~～](?=\d)", "约"),
    (r"±", "正负"),
    (r"(?<!\w)[-−](?=\d)|(?<=\p{Han})[-−](?=\d)", "负"),
    (r"(?<=\p{Han})\s*+&\s*+(?=\p{Han})", "和"),
    (r"(?:№|No\.|#)\s?(?=\d)", "编号"),
    (r"→", "到"),
)


def _any(words: dict[str, str]) -> str:
    return "|".join(regex.escape(word) for word in sorted(words, key=len, reverse=True))


def _date(match: regex.Match[str]) -> str:
    year, month, day = match["year"], match["month"], match["day"]
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):  # noqa: PLR2004 - the calendar
        return match[0]
    return f"{chinese_digits(year)}年{_small(month)}月{_small(day)}日"


def _small(digits: str) -> str:
    return chinese_cardinal(digits.lstrip("0") or "0")


def _clock(match: regex.Match[str]) -> str:
    hour, minute, second = match["hour"], match["minute"], match["second"]
    words = f"{_counted(hour.lstrip('0') or '0')}点"
    if minute != "00" or second:
        words += f"{'零' if minute[0] == '0' else ''}{_small(minute)}分"
    return f"{words}{_small(second)}秒" if second else words


def _counted(digits: str) -> str:
    return "两" if digits == "2" else chinese_number(digits)


def _percent(match: regex.Match[str]) -> str:
    of = "百分之" if match["sign"] in "%％" else "千分之"
    minus = "负" if match["minus"] else ""
    until = f"到{of}{chinese_number(match['last'])}" if match["last"] else ""
    return f"{minus}{of}{chinese_number(match['amount'])}{until}"


def _money(match: regex.Match[str]) -> str:
    scale = match["scale"] or ""
    amount = chinese_number(match["amount"]) if not scale else _counted(match["amount"])
    until = f"到{chinese_number(match['last'])}" if match["last"] else ""
    words = f"{'负' if match['minus'] else ''}{amount}{until}{scale}"
    if words == "二":
        words = "两"
    return words + CURRENCIES[match["currency"]]


def _unit(match: regex.Match[str]) -> str:
    unit = UNITS[match["unit"]]
    number = chinese_number(match["amount"])
    number = "两" if number == "二" and unit[0] not in "摄华" else number
    return f"{number}{match['scale']}{unit}"


def _dialled(match: regex.Match[str]) -> str:
    plus = "加" if match[0].startswith("+") else ""
    return plus + chinese_digits("".join(c for c in match[0] if c.isdigit()), one="幺")


def _points(match: regex.Match[str]) -> str:
    parts = match[0].split(".")
    if len(parts) == 4:  # noqa: PLR2004 - an internet address
        return "点".join(chinese_digits(part, one="幺") for part in parts)
    return "点".join(chinese_cardinal(part) for part in parts)


def _replace(pattern: str, words: str | Say) -> tuple[regex.Pattern[str], Say]:
    return regex.compile(pattern), (lambda _: words) if isinstance(words, str) else words


RULES = (
    # Addresses: their marks are said, their letters stay, digits are read one by one.
    _replace(
        r"(?<![A-Za-z0-9_.@+-])(?:[A-Za-z]++://)?(?:[A-Za-z0-9_.+-]++@)?[A-Za-z0-9_-]++"
        r"(?:\.[A-Za-z0-9_-]++)*+(?<=\.[A-Za-z]{2,})(?:/[A-Za-z0-9_/.=&?%-]*+)?",
        lambda match: regex.sub(
            r"\d+",
            lambda digits: chinese_digits(digits[0]),
            match[0].replace("://", "冒号斜杠斜杠").replace("@", "艾特").replace(".", "点"),
        ),
    ),
    # Dates and times.
    _replace(
        r"(?<![\d/.-])(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})"
        r"(?![\d/-])",
        _date,
    ),
    _replace(
        rf"(?<!\d)([12]\d\d\d)(?:{TO}|到)([12]\d\d\d)(?=年)",
        lambda match: f"{chinese_digits(match[1])}到{chinese_digits(match[2])}",
    ),
    _replace(
        r"(?<![\d.,])[12]\d\d\d(?=年(?!来|多|的?历史|级)|届|级)",
        lambda match: chinese_digits(match[0]),
    ),
    _replace(rf"(?<=:\d\d){TO}(?=\d{{1,2}}:)", "到"),
    _replace(
        r"(?<![\d:])(?P<hour>[01]?\d|2[0-4])[:：](?P<minute>[0-5]\d)(?:[:：](?P<second>[0-5]\d))?"
        r"(?![\d:])",
        _clock,
    ),
    _replace(r"(?<!\d)0(\d)(?=月|日|号|点|时|分|秒)", lambda match: chinese_cardinal(match[1])),
    # Numbers that are dialled.
    _replace(r"\+\d{1,3}(?:[ -]?\d{2,4}){2,4}(?!\d)", _dialled),
    _replace(r"(?<![\d.])(?:1[3-9]\d{9}|0\d{2,3}-\d{7,8}|[48]00-\d{3,4}-\d{3,4})(?!\d)", _dialled),
    _replace(r"(?<![\d.])1[3-9]\d[ -]\d{4}[ -]\d{4}(?!\d)", _dialled),
    _replace(
        rf"(?<=(?:{DIALLED})(?:号码|号|是|为|：|:)?\s?)\d{{3,}}(?![\d.,]|[万亿元个])", _dialled
    ),
    _replace(r"(?<![\d.])\d{3,4}(?=房间|号房|航班|室)", _dialled),
    # Percent, money, fractions, ratios.
    _replace(
        rf"(?<![\d.,])(?P<minus>[-−])?(?P<amount>{NUMBER})[%％]?"
        rf"(?:{TO}(?P<last>{NUMBER}))?\s?(?P<sign>[%％‰])",
        _percent,
    ),
    _replace(
        rf"(?P<minus>[-−])?(?P<currency>{_any(CURRENCIES)})\s?(?P<amount>{NUMBER})"
        rf"(?:{TO}(?P=currency)?(?P<last>{NUMBER}))?(?P<scale>{SCALE})(?:元|美元)?",
        _money,
    ),
    _replace(
        rf"(?<![\d.,])(?P<minus>[-−])?(?P<amount>{NUMBER})(?:{TO}(?P<last>{NUMBER}))?(?P<scale>{SCALE})\s?"
        rf"(?P<currency>€|£|¥|￥|\$|USD|EUR|CNY|RMB|GBP|JPY)(?![\w])",
        _money,
    ),
    _replace(
        r"(?<![\d/.])(\d{1,3})/(\d{1,3})(?![\d/])",
        lambda match: f"{chinese_cardinal(match[2])}分之{chinese_cardinal(match[1])}",
    ),
    _replace(
        r"(?<![A-Za-z0-9:.])(\d++)[:：](\d++)(?![\d:])",
        lambda match: f"{chinese_cardinal(match[1])}比{chinese_cardinal(match[2])}",
    ),
    _replace(r"(?<![\d.])\d++(?:\.\d++){2,}+", _points),
    # Ranges, then units and signs.
    _replace(r"(?<=[0-9A-Za-z)）]) [-−] (?=[0-9A-Za-z(（])|(?<=\d)−(?=\d)", "减"),
    _replace(rf"(?<=\d){TO}(?=\d)", "到"),
    _replace(r"(?<=(?:\d|°|℃|°C|km|kg|cm|mm|[年月日号点时分]))[-–~～](?=\d)", "到"),
    *(_replace(pattern, words) for pattern, words in SIGNS),
    _replace(
        rf"(?<![A-Za-z0-9.,])(?P<amount>{NUMBER})(?P<scale>{SCALE})\s?(?P<unit>{_any(UNITS)})(?![A-Za-z0-9²³])",
        _unit,
    ),
    _replace(r"²(?![0-9A-Za-z])", "的平方"),
    _replace(r"³(?![0-9A-Za-z])", "的立方"),
    _replace(r"(?<=[A-Za-z])[-](?=\d)", " "),
    _replace(rf"(?<![\d.,第])2(?=(?:{COUNTED}))(?!\d|{NUMBERED})", "两"),
    _replace(NUMBER, lambda match: chinese_number(match[0])),
)


def normalize(sentence: str) -> str:
    """Return a Chinese sentence with its numbers and signs in words."""
    for pattern, words in RULES:
        sentence = pattern.sub(words, sentence)
    return sentence
