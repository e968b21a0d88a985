"""Typed facts: the type that a fact's writing shows, and the places of an answer that state it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from costgym.simulators.grading.values import EXACT, Value, cleaned, may_be, values_in

FACT_TYPES = ("number", "date", "time", "moment", "identifier", "name", "text", "words")
"""Types of facts. A moment is a date with a time; `words` are looked for as they are written, as in the ToolBench family."""
TIMES = ("date", "time", "moment")
_NAME = re.compile(r"[^\W\d_a-z][\w'-]*\.?(?: [^\W\d_a-z][\w'-]*\.?){1,3}")
_PHONE = re.compile(r"[+(]?\d[\d ()./-]*\d")
_FREE_UNIT = re.compile(r" [a-z]+(?: [a-z]+)?")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact, ready to be looked for."""

    text: str
    plain: str  # the same, cleaned
    type: str
    tolerance: float  # difference at which a number still counts as the same, in the fact's own unit
    value: Value | None  # the value of a number, date, time or moment
    pattern: re.Pattern[str] | None  # finds an identifier, a name or a text in a cleaned text


@lru_cache(maxsize=8192)
def type_of(text: str) -> str:
    """The type that a fact's writing shows.

    >>> [type_of(fact) for fact in ("527911", "11.2 degrees", "2027-08-04 08:49", "BGO-2", "Maria K. Olsen", "an open door")]
    ['number', 'number', 'moment', 'identifier', 'name', 'text']
    """
    value = _whole_value(text)
    if value is not None and value.kind in TIMES:
        return value.kind
    stripped = text.strip()
    if value is not None and value.kind == "number":
        return "identifier" if re.match(r"0\d", stripped) else "number"
    if _PHONE.fullmatch(stripped) or (" " not in stripped and (any(map(str.isdigit, stripped)) or stripped.isupper())):
        return "identifier"
    return "name" if _NAME.fullmatch(stripped) else "text"


@lru_cache(maxsize=8192)
def fact_of(text: str, stated_type: str = "", tolerance: float = 0.0) -> Fact:
    """Prepare a fact, of `stated_type` or the type that its writing shows; raises ValueError where it is no such value."""
    kind, plain = stated_type or type_of(text), cleaned(text)
    value = pattern = None
    if kind in ("number", *TIMES):
        value = _whole_value(text)
        if value is None or value.kind != kind:
            raise ValueError(f"expected a {kind}, got {text!r}")
    elif kind == "identifier":
        runs = re.findall(r"[^\W_]+", plain)
        pattern = re.compile(r"(?<![^\W_])(?<!\w-)" + r"[-_/.: ()]{0,2}".join(map(re.escape, runs)) + r"(?!-?[^\W_])")
    elif kind in ("name", "text"):
        words = re.findall(r"\w+", plain)
        orders = [words] if kind == "text" or len(words) < 2 else [words, [words[-1], *words[:-1]]]
        pattern = re.compile("|".join(r"(?<!\w)" + r"\W+".join(map(re.escape, order)) + r"(?!\w)" for order in orders))
        if not words:
            pattern = re.compile(re.escape(plain))
    return Fact(text, plain, kind, tolerance, value, pattern)


def spans_of(fact: Fact, text: str, values: Sequence[Value]) -> Iterator[Span]:
    """The places of a cleaned text at which it states a fact."""
    if fact.value is not None:
        for value in values:
            if same_value(fact.value, value, fact.tolerance):
                yield value.start, value.end
    elif fact.pattern is not None:
        for match in fact.pattern.finditer(text):
            yield match.span()


def same_value(wanted: Value, actual: Value, tolerance: float = 0.0) -> bool:
    """Return whether a written value says the wanted one. A date and a time may stand in a moment; units may be left out."""
    if wanted.kind == "number":
        return actual.kind == "number" and _same_number(wanted, actual, tolerance)
    if actual.kind == "moment" and wanted.kind in ("date", "time"):
        part = 0 if wanted.kind == "date" else 1
        return any(str(reading).split(" ")[part] in wanted.readings for reading in actual.readings)
    return actual.kind == wanted.kind and any(reading in wanted.readings for reading in actual.readings)


def comparable(wanted: Value, actual: Value) -> bool:
    """Return whether two numbers measure the same, as far as their units tell."""
    return not wanted.quantity or not actual.quantity or wanted.quantity == actual.quantity


def _same_number(wanted: Value, actual: Value, tolerance: float) -> bool:
    factor = 1.0
    if wanted.quantity and actual.quantity:
        if wanted.quantity != actual.quantity:
            return False
        if wanted.quantity in EXACT:
            if not may_be(wanted.unit, actual.unit):
                return False
        else:
            factor = actual.size / wanted.size
    elif actual.quantity == "share" or wanted.quantity == "share":  # 4.5 % is 4.5 in percent and 0.045 as a share
        shift = 0.01 if actual.quantity else 100.0
        if any(_close(wanted, reading, shift, tolerance) for reading in actual.readings):
            return True
    return any(_close(wanted, reading, factor, tolerance) for reading in actual.readings)


def _close(wanted: Value, reading: Decimal | str, factor: float, tolerance: float) -> bool:
    target, actual = Decimal(wanted.readings[0]), Decimal(reading)
    if factor == 1.0 and not tolerance:
        return target == actual
    difference = abs(float(actual) * factor - float(target))
    return difference <= tolerance + 1e-9 * abs(float(target))


def _whole_value(text: str) -> Value | None:
    """The one value that a text is, perhaps with a word for what is counted."""
    plain = cleaned(text)
    values = values_in(plain)
    if not values or values[0].start > 0:
        return None
    rest = plain[values[0].end :]
    counted = values[0].kind == "number" and _FREE_UNIT.fullmatch(rest) and text.strip()[-len(rest) :].islower()
    return values[0] if len(values) == 1 and (not rest or counted) else None
