"""Values that look like values: a date, an amount, a UUID, an airport's code, by format, enumeration, example and name.

Libraries for this were tried: `hypothesis-jsonschema` 0.23.1 does not run with current Hypothesis and draws edge cases ("" is a
text), and `polyfactory` fills models and reads no schemas. Neither gives a value that a person would write.
"""

import datetime
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from costgym.simulators.draws import stable_integer
from costgym.simulators.forge.words import lexicon, listed, mapped, split
from costgym.simulators.marketplace.entities import words as name_lists

CHOICES = {
    "airport": listed("airports"), "currency": listed("currencies"), "country code": listed("country codes"),
    "language": listed("languages"), "ticker": listed("tickers"),
    "status": ("active", "pending", "completed", "suspended", "archived", "scheduled", "cancelled", "approved"),
    "weather": (
        "light rain", "clear sky", "thunderstorm", "morning fog", "strong wind", "heavy snow", "scattered clouds", "hail",
    ),
    "colour": ("crimson", "turquoise", "magenta", "olive", "indigo", "maroon", "teal", "ochre"),
    "region": ("eu-west-1", "eu-central-1", "us-east-1", "us-west-2", "ap-south-1", "ap-southeast-2", "sa-east-1"),
}  # fmt: skip
"""Forms whose values are some words."""
_START = datetime.datetime(2025, 1, 6)
_DIGIT, _HEX = re.compile(r"\d"), "0123456789abcdef"
_DAY = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d)?")
_LIKE = re.compile(r"[A-Za-z0-9][\w.:/@+-]{3,59}")
_UNSAFE = re.compile(r"\)[*+?{]|\\[1-9]|\(\?[^:]|\\[pP]")

Spec = dict[str, Any]

NAMED = mapped("forms by name")
_AMOUNTS = lexicon("amounts")
_COUNTS, _PEOPLE = lexicon("counts"), lexicon("people")
_COMPANIES = {"company", "organization", "organisation", "vendor", "supplier", "merchant", "business"}
# forms of names by the word before
_NAMES = {"first": "first", "given": "first", "last": "last", "family": "last", "user": "login", "full": "person"}
VALUE_FORMS = lexicon("value forms")  # mean something by themselves: an argument of such a form names no entity of the API


def spec_of(name: str, schema: Mapping[str, Any], entity: str = "") -> Spec | None:
    """The form of values of a field or a parameter of an entity (the name of a "user" is a person's); None where none is
    known."""
    kind, form, words = schema.get("type", ""), schema.get("format", ""), split(name)
    choices = schema.get("enum")
    if choices:
        known = [
            choice for choice in choices if not re.search("unspecified|unknown|undefined|invalid", str(choice), re.IGNORECASE)
        ]
        return {"form": "enum", "of": known or list(choices)}
    if kind == "boolean":
        return {"form": "boolean"}
    if kind in ("integer", "number"):
        return _number(kind, words, schema)
    if kind not in ("string", ""):
        return None
    forms = {
        "date": "day", "date-time": "moment", "datetime": "moment", "uuid": "uuid", "email": "email", "uri": "url",
        "url": "url", "ipv4": "ip", "slug": "slug", "hostname": "domain", "phone": "phone",
    }.get(form)  # fmt: skip
    if form in ("byte", "binary", "password"):
        return None
    return {"form": forms} if forms else _text(words, schema, entity)


def _text(words: list[str], schema: Mapping[str, Any], entity: str) -> Spec | None:
    example = schema.get("example")
    before, last = ["", "", *words][-2:]
    form = NAMED.get(last, "")
    if last in ("code", "iso") and before in ("currency", "country", "language", "airport", "postal", "zip"):
        form = {"country": "country code"}.get(before, NAMED[before])
    if last == "address" and before in ("email", "mail", "ip", "web", "url", "endpoint", "host", "server"):
        form = NAMED.get(before, "url")
    if example == "MM/YYYY":
        return {"form": "expiry"}
    if last == "number" and before == "card":
        form = "card"
    if last == "name" and before:
        form = "person" if before in _PEOPLE else _NAMES.get(before, NAMED.get(before, "title"))
        form = "title" if form == "code" else form
    if isinstance(example, str) and (day := _DAY.match(example)):
        return {"form": "moment" if day[1] else "day"}
    if form in ("code", "slug", "hex", "zip", "version", "phone", "", "isbn") and isinstance(example, str):
        digits = len(_DIGIT.findall(example))
        if digits >= 4 and _LIKE.fullmatch(example):
            return {"form": "like", "example": example}
    if last == "symbol" and "currency" in entity:
        form = "currency"
    if form == "title":
        nouns = set(entity.split("_"))
        forms = (
            kind for kind, group in (("person", _PEOPLE), ("company", _COMPANIES), ("city", {"city", "town"})) if nouns & group
        )
        form = next(forms, "country" if "country" in entity else "title")
    return {"form": form} if form else None


def _number(kind: str, words: list[str], schema: Mapping[str, Any]) -> Spec:
    last = words[-1] if words else ""
    low, high = schema.get("minimum"), schema.get("maximum")
    if last in ("lat", "latitude"):
        return {"form": "latitude"}
    if last in ("lng", "lon", "long", "longitude"):
        return {"form": "longitude"}
    if kind == "integer" and last == "year":
        return {"form": "year"}
    bounds = {}
    if isinstance(low, int | float) or isinstance(high, int | float):
        least = float(low) if isinstance(low, int | float) else min(0.0, float(high or 0) - 1e6)
        most = float(high) if isinstance(high, int | float) else least + 1e6
        bounds = {"low": least, "high": max(least, most)}
    if last in ("id", "code", "no", "ref") or (last == "number" and kind == "integer"):
        return {"form": "integer", "low": 10_000.0, "high": 9_999_999.0} | bounds
    if last in ("at", "timestamp", "time", "date", "created", "updated", "modified"):
        return {"form": "epoch"}
    if kind == "number":
        return ({"form": "decimal"} if last not in _AMOUNTS else {"form": "money"}) | bounds
    if last in _AMOUNTS - _COUNTS:
        return {"form": "integer", "low": 1_000.0, "high": 99_999.0} | bounds
    return {"form": "integer", "low": 1_000.0 if last in _COUNTS else 100.0, "high": 99_999.0} | bounds


def distinctive(spec: Mapping[str, Any] | None) -> bool:
    """Return whether values of a form can be looked for in an answer: no yes or no, no small number, no single choice."""
    if spec is None or spec["form"] in ("boolean", "year", "language", "country code", "currency", "topic"):
        return False
    if spec["form"] == "enum":
        choices = {str(choice) for choice in spec["of"]}
        return len(choices) >= 3 and all(len(choice) >= 4 and not choice.isdigit() for choice in choices)
    if spec["form"] in ("integer", "decimal", "money") and "low" in spec:
        return float(spec["high"]) - float(spec["low"]) >= 1_000
    return True


def draw(spec: Mapping[str, Any], seed: int, *names: object) -> str | int | float | bool:
    """The value of a form that belongs to some names, by `stable_integer`; the same names give the same value."""
    luck = stable_integer(seed, "forged", *names)
    form = spec["form"]
    if form in _MAKERS:
        return _MAKERS[form](luck)
    if form in CHOICES:
        return CHOICES[form][luck % len(CHOICES[form])]
    lists = name_lists()

    def pick(name: str) -> str:
        nonlocal luck
        luck, index = divmod(luck, len(lists[name]))
        return lists[name][index]

    if form in _LISTED:
        return pick(_LISTED[form])
    match form:
        case "enum":
            choice: str | int | float | bool = spec["of"][luck % len(spec["of"])]
            return choice
        case "integer":
            return _within(int(spec["low"]), int(spec["high"]), luck)
        case "decimal" | "money":
            low, high = float(spec.get("low", 11.0)), float(spec.get("high", 9_890.0))
            cents = _within(int(low * 100), int(high * 100), luck)
            return (cents if cents % 10 or cents >= int(high * 100) else cents + 1) / 100
        case "like":
            return _like(str(spec["example"]), luck)
        case "person":
            return f"{pick('first')} {pick('last')}"
        case "handle":
            return f"{pick('first')}-{pick('last')}{luck % 90 + 10}".lower()
        case "file":
            return f"{pick('adjectives')}-{pick('nouns')}.{('md', 'txt', 'json')[luck % 3]}".lower().replace(" ", "-")
        case "expiry":
            return f"{luck % 12 + 1:02d}/{luck // 12 % 5 + 2028}"
        case "card":
            return f"4{luck % 10**15:015d}"
        case "login":
            return f"{pick('first')}.{pick('last')}{luck % 90 + 10}".lower()
        case "email":
            return f"{pick('first')}.{pick('last')}@{pick('brands')}.example".lower()
        case "title":
            return f"{pick('adjectives')} {pick('nouns')}"
        case "company":
            return f"{pick('brands')} {pick('trades')}"
        case "slug":
            return f"{pick('adjectives')}-{pick('nouns')}-{luck % 90 + 10}".lower().replace(" ", "-")
        case "phrase":
            return f"{pick('adjectives')} {pick('nouns').lower()} {pick('verbs')} the {pick('nouns').lower()}"
        case "address":
            return f"{luck % 880 + 11} {pick('streets')}, {pick('cities')}"
        case "domain":
            return f"{pick('brands')}-{pick('trades')}.example".lower().replace(" ", "-")
        case "url":
            return f"https://{pick('brands')}.example/{pick('nouns')}-{luck % 9000 + 1000}".lower().replace(" ", "-")
    raise KeyError(form)


def _within(low: int, high: int, luck: int) -> int:
    return low + luck % (max(low, high) - low + 1)


def _hex(luck: int, length: int) -> str:
    return f"{luck * 0x9E3779B97F4A7C15 % 2**128:032x}"[-length:]


def _uuid(luck: int) -> str:
    text = _hex(luck, 32)
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


def _moment(luck: int) -> str:
    return (_START + datetime.timedelta(minutes=luck % 1_500_000)).strftime("%Y-%m-%dT%H:%M:00Z")


def _code(luck: int) -> str:
    letters = "BCDFGHJKLMNPQRSTVWXZ"
    luck, first = divmod(luck, 20)
    luck, second = divmod(luck, 20)
    return f"{letters[first]}{letters[second]}-{luck % 90_000 + 10_000}"


_MAKERS: dict[str, Callable[[int], str | int | float | bool]] = {
    "boolean": lambda luck: bool(luck & 1),
    "day": lambda luck: (_START + datetime.timedelta(days=luck % 1_000)).date().isoformat(),
    "moment": _moment,
    "epoch": lambda luck: 1_736_121_600 + luck % 90_000_000,
    "year": lambda luck: 2005 + luck % 20,
    "uuid": _uuid,
    "hex": lambda luck: _hex(luck, 24),
    "code": _code,
    "arn": lambda luck: f"arn:aws:resource:eu-west-1:{luck % 10**12:012d}:item/{_hex(luck, 10)}",
    "ip": lambda luck: f"10.{luck % 250 + 2}.{luck // 250 % 250 + 2}.{luck // 62_500 % 250 + 2}",
    "phone": lambda luck: f"+44 20 7946 {luck % 9_000 + 1_000}",
    "zip": lambda luck: f"{luck % 90_000 + 10_000}",
    "latitude": lambda luck: (luck % 1_200_000 - 600_000) / 10_000,
    "longitude": lambda luck: (luck % 3_400_000 - 1_700_000) / 10_000,
    "version": lambda luck: f"{luck % 9 + 1}.{luck // 9 % 40}.{luck // 360 % 200 + 10}",
    "isbn": lambda luck: f"978-3-{luck % 90_000 + 10_000}-{luck // 90_000 % 900 + 100}-{luck % 10}",
    "iban": lambda luck: f"DE{luck % 90 + 10}{luck % 10**18:018d}",
}
_LISTED = {"first": "first", "last": "last", "city": "cities", "country": "countries", "topic": "topics"}
"""Forms whose values are those of one list of names."""
FORMS = frozenset(_MAKERS) | CHOICES.keys() | lexicon("forms")


def _like(example: str, luck: int) -> str:
    """A text with the shape of an example: other digits, and other letters a to f where it looks like hexadecimal."""
    looks_hex = len(example) >= 12 and all(c in _HEX + "-" for c in example.lower())
    made = []
    for index, c in enumerate(example):
        luck = luck * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        turn = luck >> 33
        if c.isdigit() and c.isascii():
            made.append(str(turn % 9 + 1) if index == 0 else str(turn % 10))
        elif looks_hex and c != "-":
            made.append(_HEX[10 + turn % 6] if c.islower() else _HEX[10 + turn % 6].upper())
        else:
            made.append(c)
    return "".join(made)


def matches(pattern: object, value: str) -> bool:
    """Return whether a value matches a schema's pattern. Patterns that could take long to try count as not matched."""
    if not isinstance(pattern, str):
        return True
    if len(pattern) > 100 or _UNSAFE.search(pattern) or sum(pattern.count(c) for c in "*+") + pattern.count(",}") > 3:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other dialects' patterns
            return re.search(pattern, value[:80]) is not None
    except (re.error, OverflowError, RecursionError):
        return False


def put_value(root: dict[str, Any], path: tuple[str, ...], index: int, value: Any) -> None:
    """Set a value in nested mappings and lists; `index` is its index in the outermost list, and 0 in those within."""
    here: Any = root
    outer = True
    for step, after in zip(path, (*path[1:], ""), strict=True):
        at: str | int = step
        empty = list if after == "[]" else dict
        if step == "[]":
            at, outer = index if outer else 0, False
            here += [empty() for _ in range(len(here), at + 1)]
        elif after:
            here.setdefault(step, empty())
        if after:
            here = here[at]
        else:
            here[at] = value
