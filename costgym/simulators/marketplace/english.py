"""The English of version 1 of the world: its vocabulary, the values of arguments, and the facts that tools answer.

`english.json` has a line per capability of `vocabulary.json`, under the same key: ``key | title | wish | form field``. The
title is what tools are called after their provider; the wish is a noun phrase with placeholders, from which documentation and
queries are written; the form says how the fact is written in life, or ``code:KIND`` where it is a code that other capabilities
take. A test holds the articles against the library `inflect`, which takes too long to import for every run.
"""

import datetime
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from math import gcd
from pathlib import Path
from typing import Any

from costgym.simulators.draws import stable_integer
from costgym.simulators.marketplace.entities import CODE_NUMBERS, Kind, words
from costgym.simulators.marketplace.facts import Database, make_fact
from costgym.simulators.marketplace.vocabulary import Capability, Category, MarketVocabulary
from costgym.simulators.tasks import normalise

_CONSONANTS = "BCDFGHJKLMNPQRSTVWXZ"
_ALPHABETS = {"#": "0123456789", "@": _CONSONANTS, "&": _CONSONANTS.lower()}  # of the marks in the pattern of a code
CODE_SHARE = 20  # of so many codes that fit a pattern one names something, so that an invented code rarely does
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"^(an?( given)?|given) ?")
_TODAY = datetime.datetime(2026, 6, 1)
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((Path(__file__).parent / "english.json").read_text(encoding="utf-8"))
    return document


@cache
def word_list(name: str) -> tuple[str, ...]:
    """A list of words of version 1, or of version 0 where version 1 has none of its name."""
    lists = _document()["lists"]
    return tuple(lists[name] if name in lists else words()[name])


@dataclass(frozen=True)
class EnglishKind(Kind):
    """A kind of argument value with the words that name it.

    Attributes:
        phrased: Names a value in a query, such as ``flight {}``.
        blank: Stands for any value in documentation, such as ``a flight``.
        names: The values of an entity with a name, or of a choice, in order.
        spoken: What queries call the values, where that is not the value itself.
        pattern: How a code is written: ``#`` is a digit, ``@`` a capital, ``&`` a small letter.
    """

    phrased: str = "{}"
    blank: str = ""
    names: tuple[str, ...] = ()
    spoken: tuple[str, ...] = ()
    pattern: str = ""

    @property
    def size(self) -> int:
        if self.form == "code":
            return min(CODE_NUMBERS, self._capacity // CODE_SHARE)
        return len(self.names) if self.names else super().size

    def value(self, number: int, seed: int) -> str | int:
        if self.form == "code":
            factor, shift = self._scramble(seed)
            return self._written((factor * number + shift) % self._capacity)
        return self.names[number] if self.names else super().value(number, seed)

    def number(self, value: Any, seed: int) -> int | None:
        if self.form != "code" and not self.names:
            return super().number(value, seed)
        if not isinstance(value, str | int | float) or len(text := normalise(value)) > 80:
            return None
        if self.form != "code":
            return self._numbers.get(text)
        rank = self._read(text)
        if rank is None:
            return None
        factor, shift = self._scramble(seed)
        number = (rank - shift) * pow(factor, -1, self._capacity) % self._capacity
        return number if number < self.size else None

    def phrase(self, value: str | int) -> str:
        if self.form == "date":
            day = datetime.date.fromisoformat(str(value))
            return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"
        if self.form == "integer" and self.low >= 100 and self.high > 2100:  # a quantity, not a year
            return self.phrased.format(f"{value:,}")
        number = self._numbers.get(normalise(value)) if self.spoken else None
        return self.phrased.format(value if number is None else self.spoken[number])

    @property
    def reference(self) -> str:
        return f"that {self.noun}"

    def schema(self) -> dict[str, Any]:
        about = _ARTICLE.sub("", self.blank) or self.name
        if self.form == "integer":
            text = f"The number of {self.name}." if self.name in self.phrased else f"The {self.name}."
            return {"type": "integer", "description": text, "minimum": self.low, "maximum": self.high}
        if self.form == "enum":
            return {"type": "string", "description": f"The {about}.", "enum": list(self.names)}
        if self.form == "date":
            return {"type": "string", "description": "The date, written YYYY-MM-DD."}
        if self.form == "code":
            example = "".join({"#": "0", "@": "X", "&": "x"}.get(mark, mark) for mark in self.pattern)
            return {"type": "string", "description": f"Identifies the {self.noun}, written like {example}."}
        return {"type": "string", "description": f"The {about}."}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {normalise(name): number for number, name in enumerate(self.names)}

    @cached_property
    def _capacity(self) -> int:
        """The number of codes that fit the pattern."""
        product = 1
        for mark in self.pattern:
            product *= len(_ALPHABETS.get(mark, "1"))
        return product

    def _scramble(self, seed: int) -> tuple[int, int]:
        """A factor without a common divisor and a shift, which spread the codes over all that fit the pattern."""
        capacity, luck = self._capacity, stable_integer(seed, "code", self.name)
        factor = luck % capacity
        while gcd(factor, capacity) != 1:
            factor += 1
        return factor, luck // 7 % capacity

    def _written(self, rank: int) -> str:
        marks = []
        for mark in reversed(self.pattern):
            alphabet = _ALPHABETS.get(mark)
            if alphabet is not None:
                rank, index = divmod(rank, len(alphabet))
                mark = alphabet[index]
            marks.append(mark)
        return "".join(reversed(marks))

    def _read(self, text: str) -> int | None:
        """The place of a code among all that fit the pattern; None where it does not fit."""
        if len(text) != len(self.pattern):
            return None
        rank = 0
        for mark, letter in zip(self.pattern, text, strict=True):
            alphabet = _ALPHABETS.get(mark)
            if alphabet is None:
                if letter != mark.casefold():
                    return None
            elif (index := alphabet.casefold().find(letter)) < 0:
                return None
            else:
                rank = rank * len(alphabet) + index
        return rank


def _code(name: str) -> EnglishKind:
    noun, phrased, pattern = _document()["codes"][name]
    return EnglishKind(name, "code", noun, phrased=phrased, blank=with_article(noun), pattern=pattern)


def _valued(name: str) -> EnglishKind:
    spec, phrased, blank = _document()["values"][name]
    form, *parts = spec.split(":")
    about: dict[str, Any] = {"phrased": phrased, "blank": blank}
    match form:
        case "integer":
            return EnglishKind(name, form, low=int(parts[0]), high=int(parts[1]), **about)
        case "date":
            return EnglishKind(name, form, low=int(parts[0]), high=int(parts[1]), **about)
        case "enum":
            pairs = [part.partition("=") for part in parts]
            names = tuple(value for value, _, _ in pairs)
            return EnglishKind(
                name, form, choices=names, names=names, spoken=tuple(say or value for value, _, say in pairs), **about
            )
        case "article":
            names = word_list(parts[0])
            return EnglishKind(name, "name", names=names, spoken=tuple(map(with_article, names)), **about)
        case "pool":
            return EnglishKind(name, "name", names=word_list(parts[0]), **about)
        case "cross":
            pattern, lists = "{} {}", parts
        case _:
            pattern, *lists = parts
    made = [()]
    for one in lists:
        made = [(*before, word) for before in made for word in word_list(one)]  # type: ignore[misc]
    names = tuple(pattern.format(*chosen) for chosen in made)
    return EnglishKind(name, "name", names=tuple(map(str.lower, names)) if ".example" in pattern else names, **about)


def with_article(noun: str) -> str:
    """A noun or profession with its indefinite article."""
    article: str = _document()["articles"][noun]
    return article


@cache
def english(links: bool = False) -> MarketVocabulary:
    """The vocabulary of version 1; `links` adds the capabilities that long chains are made of. Titles are unique."""
    document = _document()
    kinds: dict[str, Kind] = {name: _code(name) for name in document["codes"]}
    kinds |= {name: _valued(name) for name in document["values"]}
    categories = []
    for name, entry in document["categories"].items():
        capabilities = []
        for line in [*entry["capabilities"], *(document["links"].get(name, ()) if links else ())]:
            key, title, wish, answer = line.split(" | ")
            form, field = answer.split()
            gives = form.removeprefix("code:") if form.startswith("code:") else ""
            parameters = tuple(kinds[kind] for kind in _PLACEHOLDER.findall(wish))
            capabilities.append(Capability(key, name, wish, parameters, form, gives, field, title))
        openers = tuple(entry["openers"])
        categories.append(Category(name, openers[0], (), tuple(capabilities), openers))
    by_name = {capability.name: capability for category in categories for capability in category.capabilities}
    return MarketVocabulary(tuple(categories), by_name, kinds)


@cache
def capability_titled(title: str) -> str:
    """The key of the capability that tools with this title promise; "" where there is none."""
    return next((key for key, capability in english(links=True).capabilities.items() if capability.title == title), "")


class EnglishDatabase(Database):
    """The facts of version 1, in the form that they have in life."""

    def fact(self, capability: Capability, numbers: tuple[int, ...]) -> str | int | float:
        if capability.gives:
            return super().fact(capability, numbers)
        return write_fact(capability.answer, stable_integer(self.seed, "fact", capability.name, *numbers))


def write_fact(form: str, luck: int) -> str | int | float:
    """Write a fact of a form of `english.json` from a 64-bit integer.

    Forms are ``n:low:high:decimals``, ``c:low:high`` (a whole number), ``day:year:year``, ``moment:day:day``,
    ``clock:hour:hour``, ``say:PHRASES``, the name of some phrases, and ``person`` and ``address``.
    """
    kind, *parts = form.split(":")
    if kind == "n":
        return _decimal(float(parts[0]), float(parts[1]), int(parts[2]), luck)
    if kind in ("c", "day", "moment", "clock"):
        return _within(kind, int(parts[0]), int(parts[1]), luck)
    if kind == "person":
        return make_fact("person", luck)
    if kind == "address":
        luck, house = divmod(luck, 240)
        streets, districts = word_list("streets"), word_list("districts")
        return f"{1 + house} {streets[luck % len(streets)]}, {districts[luck // 16 % len(districts)]}"
    return _phrase(parts[0] if parts else kind, luck)


def _decimal(low: float, high: float, decimals: int, luck: int) -> float:
    """A number whose last decimal is not 0, so that it has all of them in every way of writing."""
    scale = 10.0**decimals
    steps = round(low * scale) + luck % (round((high - low) * scale) + 1)
    if steps % 10 == 0:
        steps += 1 if steps < high * scale else -1
    return steps / scale


def _within(kind: str, low: int, high: int, luck: int) -> str | int:
    """A whole number, a day of some years, a moment some days from now, or a time of the day between two hours."""
    if kind == "c":
        return low + luck % (high - low + 1)
    if kind == "day":
        return (datetime.date(low, 1, 1) + datetime.timedelta(days=luck % ((high - low + 1) * 365))).isoformat()
    if kind == "moment":
        minutes = 5 * (luck % ((high - low + 1) * 288))
        return (_TODAY + datetime.timedelta(days=low, minutes=minutes)).strftime("%Y-%m-%d %H:%M")
    minute = low * 60 + luck % ((high - low) * 60)
    return f"{minute // 60:02d}:{minute % 60:02d}"


def _phrase(name: str, luck: int) -> str:
    phrases: Mapping[str, Any] = _document()["phrases"][name]
    chosen = []
    for part in phrases["parts"]:
        luck, index = divmod(luck, len(part))
        chosen.append(part[index])
    text = str(phrases["join"].join(chosen))

    def filled(mark: re.Match[str]) -> str:
        nonlocal luck
        if mark[1] == "digits":
            luck, digits = divmod(luck, 900)
            return str(100 + digits)
        luck, index = divmod(luck, len(word_list(mark[1])))
        return word_list(mark[1])[index]

    while _PLACEHOLDER.search(text):
        text = _PLACEHOLDER.sub(filled, text)
    return text
