"""What English says for units, currencies, signs and abbreviations."""

from __future__ import annotations

import regex

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip

# Sign or code: one, many, hundredth part ("" where it has none).
CURRENCIES = {
    "$": ("dollar", "dollars", "cent"),
    "US$": ("U.S. dollar", "U.S. dollars", "cent"),
    "A$": ("Australian dollar", "Australian dollars", "cent"),
    "C$": ("Canadian dollar", "Canadian dollars", "cent"),
    "HK$": ("Hong Kong dollar", "Hong Kong dollars", "cent"),
    "USD": ("U.S. dollar", "U.S. dollars", "cent"),
    "€": ("euro", "euros", "cent"),
    "EUR": ("euro", "euros", "cent"),
    "£": ("pound", "pounds", "penny"),
    "GBP": ("pound", "pounds", "penny"),
    "¥": ("yen", "yen", ""),
    "JPY": ("yen", "yen", ""),
    "CNY": ("yuan", "yuan", ""),
    "RMB": ("yuan", "yuan", ""),
    "₹": ("rupee", "rupees", "paisa"),
    "INR": ("rupee", "rupees", "paisa"),
    "₩": ("won", "won", ""),
    "₽": ("ruble", "rubles", ""),
    "CHF": ("Swiss franc", "Swiss francs", ""),
}
PLURALS = {"penny": "pence", "paisa": "paise"}
SCALES = {
    "k": "thousand",
    "K": "thousand",
    "m": "million",
    "M": "million",
    "mn": "million",
    "b": "billion",
    "B": "billion",
    "bn": "billion",
    "T": "trillion",
    "tn": "trillion",
}

# Abbreviation: one, many.
UNITS = {
    "km/h": ("kilometer per hour", "kilometers per hour"),
    "kph": ("kilometer per hour", "kilometers per hour"),
    "mph": ("mile per hour", "miles per hour"),
    "m/s": ("meter per second", "meters per second"),
    "kg/m³": ("kilogram per cubic meter", "kilograms per cubic meter"),
    "kWh": ("kilowatt hour", "kilowatt hours"),
    "mAh": ("milliampere hour", "milliampere hours"),
    "sq ft": ("square foot", "square feet"),
    "ft": ("foot", "feet"),
    "°C": ("degree Celsius", "degrees Celsius"),
    "℃": ("degree Celsius", "degrees Celsius"),
    "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "℉": ("degree Fahrenheit", "degrees Fahrenheit"),
    "°": ("degree", "degrees"),
    "Hz": ("hertz", "hertz"),
    "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"),
    "kbps": ("kilobit per second", "kilobits per second"),
    "Mbps": ("megabit per second", "megabits per second"),
    "Gbps": ("gigabit per second", "gigabits per second"),
    "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"),
    "rpm": ("revolution per minute", "revolutions per minute"),
    "fps": ("frame per second", "frames per second"),
    "psi": ("P S I", "P S I"),
    "%": ("percent", "percent"),
    "‰": ("per mille", "per mille"),
    "¢": ("cent", "cents"),
} | {
    abbreviation: (name, f"{name}s")
    for abbreviation, name in {
        "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter",
        "μm": "micrometer", "nm": "nanometer", "km²": "square kilometer", "m²": "square meter",
        "cm²": "square centimeter", "m³": "cubic meter", "cm³": "cubic centimeter",
        "mi": "mile", "yd": "yard", "yds": "yard", "oz": "ounce", "kg": "kilogram", "g": "gram",
        "mg": "milligram", "μg": "microgram", "L": "liter", "l": "liter", "ml": "milliliter",
        "mL": "milliliter", "gal": "gallon", "ha": "hectare", "KB": "kilobyte", "kB": "kilobyte",
        "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte", "W": "watt", "kW": "kilowatt",
        "MW": "megawatt", "V": "volt", "kV": "kilovolt", "mA": "milliampere", "Ω": "ohm",
        "dB": "decibel", "px": "pixel", "Pa": "pascal", "kPa": "kilopascal", "N": "newton",
        "J": "joule", "kJ": "kilojoule", "cal": "calorie", "kcal": "kilocalorie",
        "min": "minute", "mins": "minute", "s": "second", "sec": "second", "secs": "second",
        "h": "hour", "hr": "hour", "hrs": "hour", "ms": "millisecond", "yr": "year",
        "yrs": "year",
    }.items()
}  # fmt: skip

# Before a number.
LABELS = {
    "No.": "number", "Nos.": "numbers", "no.": "number", "№": "number", "#": "number",
    "§": "section", "§§": "sections", "Fig.": "figure", "fig.": "figure", "Figs.": "figures",
    "p.": "page", "pp.": "pages", "Vol.": "volume", "vol.": "volume", "Ch.": "chapter",
    "ch.": "chapter", "Sec.": "section", "sec.": "section", "Eq.": "equation", "Art.": "article",
    "approx.": "approximately", "ca.": "circa", "c.": "circa", "est.": "established", "~": "about",
    "≈": "about", "±": "plus or minus", "≥": "at least", "≤": "at most",
}  # fmt: skip

# Before a name.
TITLES = {
    "Dr.": "Doctor", "Mr.": "Mister", "Mrs.": "Missus", "Ms.": "Miz", "Prof.": "Professor",
    "St.": "Saint", "Mt.": "Mount", "Ft.": "Fort", "Rev.": "Reverend", "Gen.": "General",
    "Col.": "Colonel", "Capt.": "Captain", "Lt.": "Lieutenant", "Sgt.": "Sergeant",
    "Maj.": "Major", "Gov.": "Governor", "Sen.": "Senator", "Rep.": "Representative",
    "Hon.": "Honorable", "Pres.": "President",
}  # fmt: skip

# After a name, or anywhere.
ABBREVIATIONS = {
    "e.g.": "for example", "E.g.": "For example", "i.e.": "that is", "I.e.": "That is",
    "etc.": "et cetera", "vs.": "versus", "v.": "versus", "Jr.": "Junior", "Sr.": "Senior",
    "Inc.": "Incorporated", "Ltd.": "Limited", "Corp.": "Corporation", "Co.": "Company",
    "Bros.": "Brothers", "Dept.": "Department", "dept.": "department", "Ave.": "Avenue",
    "Blvd.": "Boulevard", "Rd.": "Road", "St.": "Street", "approx.": "approximately",
    "w/o": "without", "w/": "with", "a.k.a.": "also known as", "et al.": "and others",
    "cf.": "compare",
}  # fmt: skip

SUPERSCRIPTS = {"²": " squared", "³": " cubed"}
SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
VULGAR = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5",
    "⅘": "4/5", "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip

# Signs, with what they need around them (each goes to one word between spaces).
SIGNS = (
    (r"&+", "and"),
    (r"(?<=\w)@(?=\w)|(?<!\S)@(?=\s|\w)", "at"),
    (r"(?<=[\w)])\s*+\+(?=\+|\s*+[\w(]|\s|$)|(?<=\+)\+", "plus"),
    (r"(?<=[\w)])\s*+=\s*+(?=[\w(])", "equals"),
    (r"×|(?<=\d)\s?+\*\s?+(?=\d)", "times"),
    (r"÷", "divided by"),
    (r"(?<=\w)\s?+\^(?=\w)", "to the power of"),
    (r"(?<=\w)\s*+<\s*+(?=\w)|<(?=\d)", "is less than"),
    (r"(?<=\w)\s*+>\s*+(?=\w)|>(?=\d)", "is greater than"),
    (r"≤", "is at most"),
    (r"≥", "is at least"),
    (r"≠", "is not equal to"),
    (r"≈", "is about"),
    (r"±", "plus or minus"),
    (r"→", "to"),
    (r"√", "the square root of"),
    (r"π", "pi"),
    (r"∞", "infinity"),
    (r"(?<=[A-G])#(?!\w)", "sharp"),
    (r"(?<![\w&])#(?=\p{L})", "hashtag"),
    (r"%", "percent"),
    (r"©", "copyright"),
    (r"°", "degrees"),
    (r"€", "euros"),
    (r"£", "pounds"),
)

ROMAN_AFTER = (
    "Act|Appendix|Article|Book|Chapter|Class|Grade|Level|Mark|Part|Phase|Section|Stage|Super Bowl|"
    "Title|Type|Volume|World War"
)
RULERS = (
    "Alexander|Alfonso|Benedict|Catherine|Charles|Christian|Clement|Constantine|Edward|Elizabeth|"
    "Ferdinand|Francis|Frederick|George|Gregory|Gustav|Henry|Innocent|Ivan|James|John|John Paul|"
    "Leo|Leopold|Louis|Ludwig|Mary|Maximilian|Napoleon|Nicholas|Otto|Paul|Peter|Philip|Pius|"
    "Rama|Ramses|Richard|Rudolf|Sixtus|Urban|Victoria|Wilhelm|William"
)
COUNTED = "Boeing|Flight|Route|Room|Highway|Interstate|Apartment|Suite|Area"
YEAR_AFTER = (
    "in|since|of|by|from|until|till|before|after|during|year|around|late|early|mid|circa|spring|"
    "summer|autumn|fall|winter|class of|to|between|and"
)
DOMAINS = regex.compile(
    r"com|org|net|edu|gov|int|io|ai|dev|app|co|uk|de|fr|eu|ch|at|nl|be|es|it|ru|cn|jp|in|info|biz|"
    r"me|tv|us|ca|au|nz|br|mx|se|no|fi|dk|pl|cz|pdf|txt|csv|md|py|js|ts|json|xml|html?|css|docx?|"
    r"xlsx?|pptx?|zip|gz|tar|exe|jpe?g|png|gif|svg|mp[34]|wav|ya?ml|toml|cfg|ini|log|sh",
    regex.I,
)
"""The last part of a name with dots that is an address or a file."""
