"""Find the values that a text states: numbers with units, dates, times, and codes, in the forms that people and models write.

A value may have several readings: "04/08/2027" is a day in April or in August, "1.957" one and a bit or nearly two thousand.
"""

import html
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache

MAX_CHARACTERS = 100_000
"""A longer answer is read up to here; the rest is left unread, and such an answer is a dump in any case."""
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_ZONE = r"(?:\s?(?:z|utc|gmt)\b|[+-]\d\d:?\d\d)?"
_CLOCK = r"(?P<hour>[01]?\d|2[0-3])(?:[:h](?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:\.\d+)?)?)?\s?(?P<half>[ap]\.?m\b\.?)?"
_TIME = re.compile(r"(?<![\w:.,])" + _CLOCK + _ZONE + r"(?![\w:])")
_AT = r"(?:,?\s*(?:at|um|@|t|-|–)?\s*)"
_DATES = [
    r"(?P<year>\d{4})(?P<sep>[-/.])(?P<month>\d\d?)(?P=sep)(?P<day>\d\d?)",
    r"(?P<day>\d\d?)(?:st|nd|rd|th|\.)?\s?(?:of\s)?[ -]?" + _MONTH + r"[,]?[ -](?P<year>\d{4})",
    _MONTH + r"\s(?P<day>\d\d?)(?:st|nd|rd|th)?,?\s(?P<year>\d{4})",
    r"(?P<one>\d\d?)(?P<sep>[/.-])(?P<two>\d\d?)(?P=sep)(?P<year>\d{4})",
    r"(?P<year>(?:19|20)\d\d)(?P<month>\d\d)(?P<day>\d\d)(?=t\d)",
]
_YEAR = re.compile(r"\d{4}")
_CLOCK_AFTER = re.compile(_AT + r"(?:(?P<compact>\d{4}(?:\d\d)?)(?![\d:])|" + _CLOCK + r")" + _ZONE + r"(?![\w:])", re.ASCII)
_CLOCK_BEFORE = re.compile(r"(?<![\w:.,])" + _CLOCK + _ZONE + r"\s*(?:on|,)\s*(?:the\s)?(?:\w+day,?\s)?$")
_DATE_PATTERNS = [re.compile(r"(?<![\w.,/-])" + pattern + r"(?![\d/]|-\d)") for pattern in _DATES]
_DIGITS = (
    r"\d{1,3}(?P<space>[ '_])\d{3}(?:(?P=space)\d{3})*(?:[.,]\d{1,2})?(?!\d)"  # 527 911 and 1'957.05
    r"|\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d])|\d{1,2}(?:,\d\d)+,\d{3}(?:\.\d+)?(?!\d)"  # 1,957.05 and 5,27,911
    r"|\d{1,3}(?:\.\d{3})+,\d{1,2}(?!\d)|\d{1,3}(?:\.\d{3}){2,}(?!\d)"  # 1.957,05 and 1.527.911
    r"|\d+\.\d+|\d+,\d{1,2}(?![\d,])|0,\d+|\d+"
)
_NUMBER = re.compile(
    r"(?=[-+$€£¥₹\d]|minus |negative |us|eur|gbp|chf|nok|jpy|inr)"  # how one begins: elsewhere the rest need not be tried
    r"(?P<sign>(?<![\w.,)])[-+]|\bminus |\bnegative )?"
    r"(?P<before>(?:us\$|\b(?:usd|eur|gbp|chf|nok|jpy|inr)|[$€£¥₹])\s?)?(?P<inner>-)?"
    r"(?<![\d.])(?P<digits>" + _DIGITS + r")(?P<exponent>e[+-]?\d{1,3}(?!\w))?"
)
_SCALES = {"k": 3, "thousand": 3, "m": 6, "mn": 6, "million": 6, "bn": 9, "b": 9, "billion": 9}
_SCALE = re.compile(r"(?:\s?(thousand|million|mn|billion|bn)|([kmb]))(?![\w/°])")
_UNIT = re.compile(
    r"\s?(?:degrees? (?:celsius|fahrenheit|[cf])\b|per cent\b|us dollars\b|[°℃℉]\s?[cf]?(?!\w)|[$€£¥₹%]|(?:m/s|km/h)(?!\w)"
    r"|[a-z]+\b)"
)
_BELOW_ZERO = re.compile(r"\s?(?:degrees?|°\s?[cf]?)?(?: celsius| fahrenheit)? below zero")
_CODE = re.compile(r"(?<![\w])(?=[\w-]*\d)(?=[\w-]*[a-z])[a-z0-9]+(?:[-_/][a-z0-9]+)*(?!\w)")
_MARKUP = re.compile(r"(?=[*~`_\\])(?:\*+|~~|`+|(?<!\w)_+(?=\w)|(?<=\w)_+(?!\w)|\\boxed|\\text|\\mathrm|\\[,;!()\[\]])")

_LETTERS = str.maketrans({"−": "-", "‑": "-", "‐": "-", "“": '"', "”": '"', "«": '"', "»": '"', "’": "'", "‘": "'"})


@dataclass(frozen=True, slots=True)
class Value:
    """A value that stands in a text."""

    kind: str  # "number", "date", "time", "moment" or "code"
    # start, end: its place in the cleaned text
    start: int
    end: int
    # what it may mean: decimals of a number, ISO texts of dates and times, the letters and digits of a code
    readings: tuple[Decimal | str, ...]
    # quantity, unit, size: what a number's unit measures, the unit, and its size in base units; empty and 1 without a unit
    quantity: str = ""
    unit: str = ""
    size: float = 1.0


def cleaned(text: str) -> str:
    """A text without case, markup, accents on letters, and variants of spaces, dashes and quotes."""
    text = unicodedata.normalize("NFKC", html.unescape(text[:MAX_CHARACTERS])).casefold().translate(_LETTERS)
    text = text.replace(" & ", " and ").replace("{,}", ",").replace("\\$", "$").replace("\\%", "%")
    text = _MARKUP.sub("", text)
    if not text.isascii():  # letter by letter takes as long as all the rest
        text = "".join(letter for letter in unicodedata.normalize("NFD", text) if not unicodedata.combining(letter))
    return " ".join(text.split())


def values_in(text: str) -> list[Value]:
    """The values in a cleaned text, by place; none overlaps another."""
    taken: list[Value] = []
    if not any(map(str.isdigit, text)):
        return taken
    for candidates in (_moments(text), _times(text), _codes(text), _numbers(text)):
        chosen = sorted(taken, key=lambda value: value.start)
        taken += [value for value in candidates if not _overlaps(value, chosen)]
    return sorted(taken, key=lambda value: value.start)


def _overlaps(value: Value, chosen: list[Value]) -> bool:
    index = bisect_left(chosen, value.end, key=lambda other: other.start)
    return index > 0 and chosen[index - 1].end > value.start


# -- dates and times ---------------------------------------------------------------------------------------------------


def _moments(text: str) -> Iterator[Value]:
    # every pattern has a year of four digits, and most answers hold no date
    for pattern in _DATE_PATTERNS if _YEAR.search(text) else ():
        for match in pattern.finditer(text):
            days = tuple(dict.fromkeys(_days(match)))
            if not days:
                continue
            clock, start, end = _clock_beside(text, match)
            readings = tuple(f"{day} {clock}" for day in days) if clock else days
            yield Value("moment" if clock else "date", start, end, readings)


def _days(match: re.Match[str]) -> Iterator[str]:
    parts = match.groupdict()
    year = int(parts["year"])
    if parts.get("name"):
        month = _MONTHS.index(parts["name"][:3]) + 1
        orders = [(month, int(parts["day"]))]
    elif parts.get("one"):
        one, two = int(parts["one"]), int(parts["two"])
        orders = [(two, one)] if parts["sep"] == "." else [(one, two), (two, one)]  # with points, the day always comes first
    else:
        orders = [(int(parts["month"]), int(parts["day"]))]
    for month, day in orders:
        try:
            yield date(year, month, day).isoformat()
        except ValueError:
            continue


def _clock_beside(text: str, match: re.Match[str]) -> tuple[str, int, int]:
    """The time of day that is written after or before a date, and the place of both together."""
    after = _CLOCK_AFTER.match(text, match.end())
    if after is not None and after["compact"]:
        digits = after["compact"]
        if "t" in after.group()[: -len(digits)]:
            return f"{digits[:2]}:{digits[2:4]}" + _seconds(digits[4:]), match.start(), after.end()
        return "", match.start(), match.end()
    if after is not None and (clock := _clock(after)):
        return clock, match.start(), after.end()
    before = _CLOCK_BEFORE.search(text, max(0, match.start() - 40), match.start())
    if before is not None and (clock := _clock(before)):
        return clock, before.start(), match.end()
    return "", match.start(), match.end()


def _clock(match: re.Match[str]) -> str:
    half = (match["half"] or "")[:1]
    if match["minute"] is None and not half:
        return ""
    hour = int(match["hour"])
    if half and not 1 <= hour <= 12:
        return ""
    hour = hour % 12 + (12 if half == "p" else 0) if half else hour
    return f"{hour:02d}:{match['minute'] or '00'}" + _seconds(match["second"] or "")


def _seconds(seconds: str) -> str:
    return f":{seconds}" if seconds and seconds != "00" else ""


def _times(text: str) -> Iterator[Value]:
    for match in _TIME.finditer(text):
        if clock := _clock(match):
            yield Value("time", match.start(), match.end(), (clock,))


# -- codes -------------------------------------------------------------------------------------------------------------


def _codes(text: str) -> Iterator[Value]:
    for match in _CODE.finditer(text):
        if not _NUMBER_WITH_UNIT.fullmatch(match.group()):
            yield Value("code", *match.span(), ("".join(filter(str.isalnum, match.group())),))


_NUMBER_WITH_UNIT = re.compile(
    r"(?:usd|eur|gbp|chf|nok|jpy|inr)?\d+(?:e\d{1,3}|[kmb]|st|nd|rd|th|x|[a-z]{1,3}(?=$))?(?:-[a-z]+)?"
)


# -- numbers -----------------------------------------------------------------------------------------------------------


def _numbers(text: str) -> Iterator[Value]:
    for match in _NUMBER.finditer(text):
        before = text[match.start("digits") - 1] if match.start("digits") else " "
        if (before.isalpha() and not match["before"]) or before == "_":
            continue  # a number inside a word
        start, end = match.start(), match.end()
        shift = int(match["exponent"][1:]) if match["exponent"] else 0
        scale = _SCALE.match(text, end)
        if scale and (scale[1] or scale[2] == "k" or match["before"]):  # "5m" are five metres, "$5m" are millions
            shift, end = shift + _SCALES[scale[1] or scale[2]], scale.end()
        unit = unit_of(match["before"]) if match["before"] else None
        after = _UNIT.match(text, end)
        if after is not None and (following := unit_of(after.group())) is not None and unit in (None, following):
            unit, end = following, after.end()
        negative = (match["sign"] or "+").strip() != "+" or match["inner"] is not None
        if below := _BELOW_ZERO.match(text, match.end()):
            negative, end = True, max(end, below.end())
        sign = -1 if negative else 1
        readings = tuple(sign * reading.scaleb(shift) for reading in _decimals(match["digits"]))
        yield Value("number", start, end, readings, *(unit or ("", "", 1.0)))


_THOUSANDS_POINT = re.compile(r"[1-9]\d{0,2}\.\d{3}")


def _decimals(digits: str) -> Iterator[Decimal]:
    """The numbers that written digits may mean. "1,957" is a whole number; "1.957" may be one or not."""
    plain = digits.replace(" ", "").replace("'", "").replace("_", "")
    last = max(plain.rfind("."), plain.rfind(","))
    if last < 0:
        yield Decimal(plain)
        return
    mark, decimals = plain[last], plain[last + 1 :]
    whole = plain[:last].replace(".", "").replace(",", "")
    between_thousands = (mark == "," and len(decimals) == 3 and not plain.startswith("0")) or plain.count(mark) > 1
    yield Decimal(whole + decimals) if between_thousands else Decimal(f"{whole}.{decimals}")
    if _THOUSANDS_POINT.fullmatch(plain):
        yield Decimal(whole + decimals)


_UNITS: dict[str, dict[str, tuple[float, str]]] = {
    # quantity: {unit: (size in the base unit, the ways to write it)}
    "length": {
        "m": (1.0, "m metre metres meter meters"),
        "km": (1000.0, "km kms kilometre kilometres kilometer kilometers"),
        "cm": (0.01, "cm centimetre centimetres centimeter centimeters"),
        "mm": (0.001, "mm millimetre millimetres millimeter millimeters"),
        "mi": (1609.344, "mi mile miles"),
        "ft": (0.3048, "ft foot feet"),
    },
    "time": {
        "s": (1.0, "s sec secs second seconds"),
        "ms": (0.001, "ms millisecond milliseconds"),
        "min": (60.0, "min mins minute minutes"),
        "h": (3600.0, "h hr hrs hour hours"),
        "d": (86400.0, "d day days"),
    },
    "mass": {
        "kg": (1.0, "kg kgs kilogram kilograms kilogramme kilogrammes"),
        "g": (0.001, "g gram grams gramme grammes"),
        "t": (1000.0, "tonne tonnes"),
        "lb": (0.45359237, "lb lbs pound-mass"),
    },
    "data": {
        "MB": (1.0, "mb megabyte megabytes"),
        "GB": (1000.0, "gb gigabyte gigabytes"),
        "kB": (0.001, "kb kilobyte kilobytes"),
    },
    "speed": {
        "m/s": (1.0, "m/s"),
        "km/h": (1 / 3.6, "km/h kmh kph kmph"),
        "mph": (0.44704, "mph"),
        "kn": (0.514444, "kn knot knots"),
    },
    "power": {"W": (1.0, "w watt watts"), "kW": (1000.0, "kw kilowatt kilowatts")},
    # a temperature has an offset and a currency has a rate, so nothing is converted; "degrees" fits either scale
    "temperature": {
        "deg": (1.0, "° deg degs degree degrees"),
        "C": (1.0, "°c ℃ celsius centigrade c degrees-celsius degrees-c degree-celsius deg-c degc"),
        "F": (1.0, "°f ℉ fahrenheit degrees-fahrenheit degrees-f degree-fahrenheit deg-f degf"),
    },
    "money": {
        "USD": (1.0, "$ usd us$ dollar dollars us-dollars"),
        "EUR": (1.0, "€ eur euro euros"),
        "GBP": (1.0, "£ gbp pound pounds sterling"),
        "NOK": (1.0, "nok kr kroner"),
        "JPY": (1.0, "¥ jpy yen"),
        "CHF": (1.0, "chf francs"),
        "INR": (1.0, "₹ inr rupees rupee"),
        "credits": (1.0, "credit credits"),
    },
    "share": {"%": (1.0, "% percent per-cent pct")},
}
EXACT = frozenset({"temperature", "money"})  # quantities in which units are compared and not converted


@cache
def _spellings() -> dict[str, tuple[str, str, float]]:
    return {
        written: (quantity, unit, size)
        for quantity, units in _UNITS.items()
        for unit, (size, spellings) in units.items()
        for written in spellings.split()
    }


def unit_of(written: str) -> tuple[str, str, float] | None:
    """The quantity, the unit and its size of a written unit; None where it is not a unit that is known."""
    return _spellings().get("-".join(written.casefold().split()))


def may_be(one: str, other: str) -> bool:
    """Return whether two units of a quantity whose units are not converted can mean the same."""
    return one == other or ({one, other} != {"C", "F"} and "deg" in (one, other))
