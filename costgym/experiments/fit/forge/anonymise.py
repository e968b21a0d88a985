"""Replace personal details in recorded texts: mails, telephone numbers, cards, account numbers, tokens, addresses and names.

Texts are searched by patterns and a list of names. Fields of records that are called after a detail, such as `phone` or
`first_name`, hold one whatever it looks like, and it is replaced in all texts.

What is alike in a log stays alike: the same detail gets the same replacement everywhere, so that an answer still holds the fact
that a later call takes. It is a help and never complete: details that no pattern and no list of names describes stay.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
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
_PEOPLE = r"(?:customer|client|contact|patient|guest|passenger|employee|owner|author|recipient|sender|buyer|member|holder)"
_FIELDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("name", rf"(first|last|full|given|family|middle|sur)_?name|{_PEOPLE}_?name|name_on_card|card_?holder"),
        ("user name", r"user_?name|login|screen_?name|handle"),
        ("mail", r"(.*_)?e_?mail(_address)?"),
        ("telephone number", r"(.*_)?(phone|telephone|mobile|cell|fax|tel)(_?number)?"),
        ("address", r"((home|street|postal|shipping|billing|mailing)_)?address(_?line)?(_?\d)?|street(_?name)?"),
        ("birthday", r"(date_of_|dateof)?birth(_?da(y|te))?|dob"),
        ("social security number", r"ssn|social_security_number|tax_id|national_id|passport(_number)?"),
        ("IBAN", r"iban|account_number"),
        ("card", r"(credit_)?card_?number|pan"),
        ("token", r"password|passwd|secret|api_?key|access_?token|refresh_?token"),
    )
)
"""Names of fields, in snake case, whose values are personal details."""
_PERSON = frozenset({"mail", "telephone number", "birthday", "social security number"})
"""Kinds of details beside which a field `name` holds the name of a person."""
_TOKEN = re.compile(r"\w+")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\s.-]+")
_LEAST_DETAIL, _LEAST_DIGITS, _LONGEST_DETAIL = 3, 5, 200
_DRAWS = 20
_DEEPEST, _LONGEST_TEXT = 100, 200_000
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
        self._known: dict[str, str] = {}
        self._begins: dict[str, list[tuple[int, int]]] = {}  # of known details: first word, signs before it and whole length
        self._drawn: set[tuple[str, str]] = set()

    def learn(self, values: Iterable[Any]) -> None:
        """Note the details that records hold in fields called after them, so that they are replaced in all texts."""
        for value in values:
            for kind, detail in _details(value):
                words = [word for word in detail.split() if word[0].isupper()] if kind == "name" else []
                for part in (detail, *words):
                    least = _LEAST_DIGITS if part.isdigit() else _LEAST_DETAIL
                    if least <= len(part) <= _LONGEST_DETAIL and _TOKEN.search(part):
                        self._known.setdefault(part, kind)
        begins: dict[str, set[tuple[int, int]]] = {}
        for detail in self._known:
            if first := _TOKEN.search(detail):
                begins.setdefault(first[0], set()).add((first.start(), len(detail)))
        self._begins = {word: sorted(shapes, key=lambda shape: -shape[1]) for word, shapes in begins.items()}

    @property
    def counts(self) -> dict[str, int]:
        """How many different details were replaced, by kind."""
        return dict(sorted(Counter(kind for kind, _ in self._replaced).items()))

    def text(self, text: str) -> str:
        """A text with its personal details replaced."""
        parts, end = [], 0
        for begin, detail in self._spans(text):
            parts += [self._unknown(text[end:begin]), self._replace(self._known[detail], detail)]
            end = begin + len(detail)
        return "".join([*parts, self._unknown(text[end:])])

    def _spans(self, text: str) -> Iterator[tuple[int, str]]:
        """Where a text has known details, the longest first."""
        end = 0
        for token in _TOKEN.finditer(text) if self._known else ():
            for before, length in self._begins.get(token[0], ()):
                begin = token.start() - before
                detail = text[begin : begin + length]
                if begin >= end and detail in self._known and not _TOKEN.match(text[begin + length : begin + length + 1]):
                    yield begin, detail
                    end = begin + length
                    break

    def _unknown(self, text: str) -> str:
        """A text with the details replaced that patterns and the list of names describe."""
        for kind, pattern in self._patterns:
            text = pattern.sub(self._by(kind), text)
        return _WORD.sub(self._name, text)

    def value(self, value: Any, depth: int = 0) -> Any:
        """The same of all texts in a value of JSON, without what is nested or as long as no record is; keys stay."""
        if isinstance(value, str):
            return self.text(value[:_LONGEST_TEXT])
        if depth > _DEEPEST:
            return None
        if isinstance(value, list):
            return [self.value(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {key: self.value(item, depth + 1) for key, item in value.items()}
        if isinstance(value, int) and not isinstance(value, bool):
            kind = self._known.get(str(value)) or ("card" if len(str(value)) in range(13, 20) and _luhn(str(value)) else None)
            return value if kind is None else int(self._replace(kind, str(value)))
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
        for attempt in range(_DRAWS if key not in self._replaced else 0):
            luck = stable_integer(0, "anonymise", kind, text, *([attempt] if attempt else []))
            self._replaced[key] = drawn = _alike(kind, text, luck)
            if (kind, drawn) not in self._drawn:  # what differs in a log differs in what replaces it, as far as there are names
                break
        self._drawn.add((kind, self._replaced[key]))
        return self._replaced[key]


def counted(counts: dict[str, int]) -> str:
    """How many details of each kind there are, in words."""
    words = [f"{count} {kind}{'' if count == 1 else 'es' if kind.endswith('s') else 's'}" for kind, count in counts.items()]
    return ", ".join(words) or "nothing"


def _details(value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """The personal details that the fields of records name, each with its kind."""
    if depth > 12:
        return
    if isinstance(value, list):
        for item in value:
            yield from _details(item, depth + 1)
    if not isinstance(value, dict):
        return
    kinds = {key: _kind_of(str(key)) for key in value}
    if _PERSON & set(kinds.values()):
        kinds |= {key: "name" for key in value if str(key).lower() == "name"}
    for key, item in value.items():
        if (kind := kinds[key]) is None or isinstance(item, dict | list | bool | float) or item is None:
            yield from _details(item, depth + 1)
        elif str(item).strip():
            yield "mail" if "@" in str(item) else kind, str(item).strip()


def _kind_of(field: str) -> str | None:
    """The kind of detail that a field holds by its name; None for any other."""
    name = _SNAKE.sub("_", field).lower()
    return next((kind for kind, pattern in _FIELDS if pattern.fullmatch(name)), None)


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
    if kind == "birthday" and _DATE.match(text):
        return f"{1940 + luck % 60}-{luck // 64 % 12 + 1:02}-{luck // 1024 % 28 + 1:02}{text[10:]}"
    shape = "".join(_other(character, luck >> (index * 3 % 48)) for index, character in enumerate(text))
    return shape if text[:1] == "0" or shape[:1] != "0" else f"{'8' if text[0] == '9' else '9'}{shape[1:]}"


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
