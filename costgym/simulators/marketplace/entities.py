"""The values that arguments take: names from pools, codes with a check letter, years, amounts, dates, choices.

The values of a kind are numbered. Names are combinations of word lists; codes are computed from their number and never
stored. The splits divide the numbers between them (by remainder), so train and test name no entity in common.
"""

import datetime
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from costgym.simulators.draws import stable_integer
from costgym.simulators.tasks import normalise

CODE_NUMBERS = 90_000
_CHECK_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
_FIRST_DAY = datetime.date(2025, 1, 6)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CODE = re.compile(r"(.+)-([0-9]{5})([a-z])")


# How the names of a kind of entity are put together, and the word lists that are gone through for it, the last one fastest.
_NAMES: dict[str, tuple[str, ...]] = {
    "city": ("{}", "cities"), "country": ("{}", "countries"), "topic": ("{}", "topics"), "person": ("{} {}", "first", "last"),
    "company": ("{} {}", "brands", "trades"), "product": ("{} {}", "brands", "things"),
    "team": ("{} {}", "cities", "team_names"), "hotel": ("{} {}", "adjectives", "hotel_names"),
    "dish": ("{} {}", "styles", "dishes"), "domain": ("{}-{}.example", "brands", "trades"),
    "email": ("{}@{}.example", "first", "brands"), "movie": ("The {} {}", "adjectives", "nouns"),
    "series": ("{1} of the {0} Coast", "adjectives", "nouns"), "song": ("{} {} Blues", "adjectives", "nouns"),
    "book": ("Letters from the {} {}", "adjectives", "nouns"), "game": ("{1} Quest: {0} Edition", "adjectives", "nouns"),
}  # fmt: skip


@cache
def words() -> dict[str, list[str]]:
    """The word lists behind the names."""
    lists: dict[str, list[str]] = json.loads((Path(__file__).parent / "names.json").read_text(encoding="utf-8"))
    return lists


@cache
def pool(kind: str) -> tuple[str, ...]:
    """All names of a kind of entity, in a fixed order."""
    pattern, *names = _NAMES[kind]
    made = (pattern.format(*parts) for parts in product(*(words()[name] for name in names)))
    return tuple(name.lower() if ".example" in pattern else name for name in made)


@cache
def _numbers(kind: str) -> dict[str, int]:
    return {normalise(name): number for number, name in enumerate(pool(kind))}


_TITLES = frozenset({"movie", "series", "song", "book", "game"})


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of argument value."""

    name: str
    form: str  # "name", "code", "integer", "date" or "enum"
    noun: str = ""  # the noun for what a code identifies
    prefix: str = ""  # first letters of a code
    # low, high: range of an integer, or of a date in days
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()  # values of an enum

    @classmethod
    def of_values(cls, name: str, spec: Sequence[Any]) -> "Kind":
        """Make a kind from the vocabulary's form: ["integer", low, high], ["date", first, last day] or ["enum", ...]."""
        if spec[0] == "enum":
            return cls(name, "enum", choices=tuple(spec[1:]))
        return cls(name, spec[0], low=spec[1], high=spec[2])

    @property
    def entity(self) -> bool:
        """The values name entities, which the splits divide between them."""
        return self.form in ("name", "code")

    @property
    def size(self) -> int:
        """Number of values."""
        if self.form == "name":
            return len(pool(self.name))
        if self.form == "code":
            return CODE_NUMBERS
        return len(self.choices) if self.form == "enum" else self.high - self.low + 1

    def value(self, number: int, seed: int) -> str | int:
        """The value with this number."""
        if self.form == "name":
            return pool(self.name)[number]
        if self.form == "code":
            digits = number + 10_000
            return f"{self.prefix}-{digits}{_check_letter(seed, self.name, digits)}"
        if self.form == "enum":
            return self.choices[number]
        if self.form == "date":
            return (_FIRST_DAY + datetime.timedelta(days=self.low + number)).isoformat()
        return self.low + number

    def number(self, value: Any, seed: int) -> int | None:
        """The number of a value in any spelling that is accepted, or None where there is no such value."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return None
        # what no value looks like is turned down before it is normalised, which takes time in proportion to its length
        if (isinstance(value, str) and len(value) > 80) or (isinstance(value, int) and not -(10**9) < value < 10**9):
            return None
        text = normalise(value)
        if self.form == "name":
            return _numbers(self.name).get(text)
        if self.form == "code":
            match = _CODE.fullmatch(text)
            if match is None or match[1] != self.prefix.casefold():
                return None
            digits = int(match[2])
            right = digits >= 10_000 and _check_letter(seed, self.name, digits).casefold() == match[3]
            return digits - 10_000 if right else None
        if self.form == "enum":
            return next((index for index, choice in enumerate(self.choices) if normalise(choice) == text), None)
        if self.form == "date":
            return self._day(text)
        if not re.fullmatch(r"-?[0-9]{1,9}", text) or not self.low <= int(text) <= self.high:
            return None
        return int(text) - self.low

    def _day(self, text: str) -> int | None:
        if not _DAY.fullmatch(text):
            return None
        try:
            days = (datetime.date.fromisoformat(text) - _FIRST_DAY).days
        except ValueError:
            return None
        return days - self.low if self.low <= days <= self.high else None

    def phrase(self, value: str | int) -> str:
        """The words in which a query names the value."""
        if self.form == "code":
            return f"{self.noun} {value}"
        return f'"{value}"' if self.name in _TITLES else str(value)

    @property
    def reference(self) -> str:
        """The words in which a query refers to a value that another call has to find out."""
        return f"that {self.noun}"

    def schema(self) -> dict[str, Any]:
        """JSON schema of a parameter of this kind."""
        if self.form == "integer":
            return {
                "type": "integer",
                "description": f"The {self.name}, a whole number.",
                "minimum": self.low,
                "maximum": self.high,
            }
        if self.form == "enum":
            return {"type": "string", "description": f"The {self.name}.", "enum": list(self.choices)}
        if self.form == "date":
            return {"type": "string", "description": "The day, as YYYY-MM-DD."}
        if self.form == "code":
            return {"type": "string", "description": f"The {self.noun}'s code or id, such as {self.prefix}-12345A."}
        return {"type": "string", "description": f"Name of the {self.name}."}


def _check_letter(seed: int, kind: str, digits: int) -> str:
    return _CHECK_LETTERS[stable_integer(seed, "check", kind, digits) % len(_CHECK_LETTERS)]
