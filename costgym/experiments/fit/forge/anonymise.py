"""Replace personal details in recorded texts: mails, telephone numbers, cards, account numbers, tokens, addresses and names.

What is alike in a log stays alike: the same detail gets the same replacement everywhere, so that an answer still holds the fact
that a later call takes. It is a help and never complete: details that no pattern and no list of names describes stay.
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from costgym.simulators.draws import stable_integer
from costgym.simulators.forge.values import draw

_ROMANCE = (
    r"(?:Rua|Calle|Via|Rue|Avenida|Plaza|Piazza|Corso|Largo|Praça) (?:(?:de|da|do|das|dos|del|della|des|du|la|los|las) )*"
    r"[A-ZÀ-Ý][\w'’-]+(?: [A-ZÀ-Ý][\w'’-]+)?"
)
"""Names of streets that begin with what they are."""
_STREET = (
    r"(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Square|Sq|Terrace|Way|Place|Pl|Close|Crescent)"
)
_PATTERNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("mail", (r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}",)),
    (
        "token",
        (
            r"\b(?:sk|pk|rk|gh[pousr]|github_pat|xox[abpr]|hf|glpat|AKIA|ASIA|AIza)[-_]?[A-Za-z0-9_-]{12,200}\b",
            r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,}",
            r"(?<=Bearer )[\w.~+/-]{12,}=*",
            r"(?i:(?<=password=)|(?<=passwd=)|(?<=api_key=)|(?<=token=))[^\s&\"']{6,}",
        ),
    ),
    ("IBAN", (r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b",)),
    ("card", (r"\b(?:\d[ -]?){12,18}\d\b",)),
    ("social security number", (r"\b\d{3}-\d{2}-\d{4}\b",)),
    (
        "IP address",
        (
            r"\b(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\b",
            r"\b(?:[0-9a-fA-F]{1,4}:){4,7}[0-9a-fA-F]{1,4}\b",
        ),
    ),
    (
        "telephone number",
        (
            r"(?<![\w.-])(?:\+\d{1,3}[ .-]?)(?:\(?\d{1,5}\)?[ .-]?){2,5}\d{2,4}\b",
            r"(?<![\w.-])\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}\b",
            r"(?<![\w.-])0\d{2,5}[ /-]\d{4,9}\b",
        ),
    ),
    (
        "address",
        (
            rf"\b\d{{1,5}}[A-Za-z]? (?:[A-Z][\w'.-]+ ){{1,4}}{_STREET}\b\.?(?:,? (?:Apt|Suite|Unit|Flat) ?#?\w+)?",
            r"\b(?:\d{1,4} )?[A-ZÄÖÜ][\wäöüß-]+(?:straße|strasse|weg|gasse|allee|platz) \d{1,4}[a-z]?\b",
            r"\b\d{1,4} [A-ZÄÖÜ][\wäöüß-]+(?:straße|strasse|gasse|allee|platz)\b",
            rf"\b\d{{1,4}},? {_ROMANCE}\b",
            rf"\b{_ROMANCE},? \d{{1,4}}\b",
        ),
    ),
)  # fmt: skip
_HONORIFIC = r"(?:Mr|Mrs|Ms|Miss|Dr|Prof|Herr|Frau)\.? "
_CAPITALISED = r"[A-ZÀ-Ý][\w'’-]+"
_WORD = re.compile(rf"(?:{_HONORIFIC})?{_CAPITALISED}(?: (?:[A-Z]\. )?(?:van |von |de |da |el |al-)?{_CAPITALISED})*")
_TITLE = re.compile(_HONORIFIC)


@cache
def _names() -> tuple[frozenset[str], frozenset[str]]:
    """First names and last names that are known."""
    lines = (Path(__file__).parent / "names.txt").read_text(encoding="utf-8").splitlines()
    first, last = (frozenset(line.split()) for line in lines[:2])
    return first, last


class Anonymiser:
    """Replaces the personal details of one log, and counts the different ones by kind."""

    def __init__(self) -> None:
        self._replaced: dict[tuple[str, str], str] = {}
        self._patterns = [(kind, re.compile("|".join(patterns))) for kind, patterns in _PATTERNS]

    @property
    def counts(self) -> dict[str, int]:
        """How many different details were replaced, by kind."""
        return dict(sorted(Counter(kind for kind, _ in self._replaced).items()))

    def text(self, text: str) -> str:
        """A text with its personal details replaced."""
        for kind, pattern in self._patterns:
            text = pattern.sub(self._by(kind), text)
        return _WORD.sub(self._name, text)

    def value(self, value: Any) -> Any:
        """The same of all texts in a value of JSON; keys stay."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}
        if isinstance(value, int) and not isinstance(value, bool) and len(str(value)) in range(13, 20) and _luhn(str(value)):
            return int(self._replace("card", str(value)))
        return value

    def _by(self, kind: str) -> Callable[[re.Match[str]], str]:
        return lambda match: self._replace(kind, match[0]) if kind != "card" or _luhn(match[0]) else match[0]

    def _name(self, match: re.Match[str]) -> str:
        """A run of capitalised words: the part of it that is a name of a person is replaced."""
        first, last = _names()
        title = _TITLE.match(match[0])
        if title:
            return title[0] + self._replace("name", match[0][title.end() :])
        words = match[0].split(" ")
        known = [
            number for number, word in enumerate(words) if word.split("-")[0].removesuffix("'s").removesuffix("’s") in first
        ]
        if not known:
            begins = next((n for n, word in enumerate(words) if len(words) > 1 and word.removesuffix("'s") in last), None)
            if begins in (None, 0):
                return match[0]
            known = [begins - 1] if begins else []
        if not known:
            return match[0]
        before, name = words[: known[0]], " ".join(words[known[0] :])
        end = next((ending for ending in ("'s", "’s") if name.endswith(ending)), "")
        return " ".join([*before, self._replace("name", name.removesuffix(end)) + end])

    def _replace(self, kind: str, text: str) -> str:
        key = kind, text
        if key not in self._replaced:
            luck = stable_integer(0, "anonymise", kind, text)
            self._replaced[key] = _alike(kind, text, luck)
        return self._replaced[key]


def _alike(kind: str, text: str, luck: int) -> str:
    if kind == "name":
        whole = str(draw({"form": "person"}, 0, luck))
        return whole if " " in text else whole.split(" ")[0]
    if kind == "IP address" and "." in text:
        return str(draw({"form": "ip"}, 0, luck))
    if kind == "mail":
        return str(draw({"form": "email"}, 0, luck))
    if kind == "address":
        return str(draw({"form": "address"}, 0, luck)).partition(",")[0]
    return "".join(_other(character, luck >> (index * 3 % 48)) for index, character in enumerate(text))


def _other(character: str, luck: int) -> str:
    if character.isdigit():
        return str((int(character) + 1 + luck % 8) % 10)
    if character.isascii() and character.islower():
        return chr(97 + (ord(character) - 97 + 1 + luck % 24) % 26)
    return chr(65 + (ord(character) - 65 + 1 + luck % 24) % 26) if character.isascii() and character.isupper() else character


def _luhn(text: str) -> bool:
    """Return whether digits have the check digit of a card's number."""
    digits = [int(c) for c in text if c.isdigit()]
    doubled = [2 * d - 9 * (d > 4) if n % 2 else d for n, d in enumerate(reversed(digits))]
    return len(digits) >= 13 and sum(doubled) % 10 == 0
