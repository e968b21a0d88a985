"""The hidden entity database: facts as a function of the seed, the capability and the arguments.

Nothing is stored. A fact is made from a stable hash, in a form distinctive enough to be looked for in an answer: numbers
with cents that do not end in 0, five or more digits, full names, titles, codes.
"""

import datetime
from collections.abc import Mapping
from typing import Any

from costgym.simulators.draws import stable_integer
from costgym.simulators.marketplace.entities import Kind, words
from costgym.simulators.marketplace.vocabulary import Capability

_START = datetime.datetime(2027, 1, 1)


class Database:
    """The facts of a marketplace; codes found from one split's entities (one of `shares`) belong to that split too."""

    def __init__(self, seed: int, kinds: Mapping[str, Kind], shares: int = 2) -> None:
        self.seed, self.kinds, self.shares = seed, kinds, shares

    def numbers(self, capability: Capability, arguments: Mapping[str, Any]) -> tuple[int, ...] | None:
        """The numbers of the arguments' values, or None where an argument is missing or names nothing."""
        numbers = []
        for kind in capability.parameters:
            number = kind.number(arguments.get(kind.name), self.seed)
            if number is None:
                return None
            numbers.append(number)
        return tuple(numbers)

    def fact(self, capability: Capability, numbers: tuple[int, ...]) -> str | int | float:
        """The fact in the type that JSON carries. Its ``str`` is the text that grading looks for."""
        luck = stable_integer(self.seed, "fact", capability.name, *numbers)
        if capability.gives:
            of = next((n for kind, n in zip(capability.parameters, numbers, strict=True) if kind.entity), 0)
            share = of % self.shares
            codes = self.kinds[capability.gives]
            return codes.value(luck % (codes.size // self.shares) * self.shares + share, self.seed)
        return make_fact(capability.answer, luck)


def make_fact(form: str, luck: int) -> str | int | float:
    """Make a value of a format, such as "decimal", "person" or "moment", from a 64-bit integer."""
    match form:
        case "decimal":
            return _cents(110 + luck % 9_880)
        case "share":
            return (1_000 + luck % 9_000) / 10_000
        case "money":
            return _cents(10_100 + luck % 980_000)
        case "count":
            return 10_000 + luck % 8_990_000
        case "day":
            return (_START + datetime.timedelta(days=luck % 3_000)).date().isoformat()
        case "moment":
            return (_START + datetime.timedelta(minutes=luck % 2_000_000)).strftime("%Y-%m-%d %H:%M")
    lists = words()

    def pick(name: str) -> str:
        nonlocal luck
        luck, index = divmod(luck, len(lists[name]))
        return lists[name][index]

    match form:
        case "person":
            return f"{pick('first')} {pick('last')[0]}. {pick('last')}"
        case "title":
            return f"{pick('adjectives')} {pick('nouns')} and {pick('adjectives')} {pick('nouns')}"
        case "address":
            luck, house = divmod(luck, 880)
            return f"{11 + house} {pick('streets')}, {pick('adjectives')} Quarter"
        case "phrase":
            subject, verb = f"{pick('adjectives')} {pick('nouns')}", pick("verbs")
            return f"{subject.capitalize()} {verb} the {pick('adjectives').lower()} {pick('nouns').lower()}"
    raise KeyError(form)


def _cents(cents: int) -> float:
    return (cents if cents % 10 else cents + 1) / 100
