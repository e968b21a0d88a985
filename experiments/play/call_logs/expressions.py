"""Expressions that say where a log of another shape has its fields, for example ``latency_s=(end - start) / 1000``.

| form | meaning |
| --- | --- |
| `a.b.0.c` | a value inside the record; null where it is missing |
| `["gen_ai.tool.name"]`, `a["b c"]` | names with other letters |
| `12.5`, `'text'`, `true`, `false`, `null` | themselves |
| `x * y`, `x / y`, `x + y`, `x - y` | numbers; times in ISO 8601 count as seconds |
| `x == y`, `x != y` | true or false |
| `x or y` | the first that is not null |
| `( )` | grouping |

Nothing is ever executed: there are no calls, no names of Python and no access beyond the record.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from ....simulators.errors import ConfigError

FIELDS = (
    "tool", "started", "latency_s", "status", "price", "input_tokens", "output_tokens", "cold", "episode", "capability",
    "category", "provider",
)  # fmt: skip
"""Fields of a call that an expression can give."""
MAX_DEPTH = 40
Value = Any
Expression = Callable[[Mapping[str, Any]], Value]
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][\w-]*)|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<sign>==|!=|[-+*/().\[\]]))"
)
_WORDS = {"true": True, "false": False, "null": None}


def parse_fields(given: Mapping[str, str]) -> dict[str, Expression]:
    """Parse expressions by field.

    Raises:
        ConfigError: a field is unknown, or an expression cannot be read; says where.
    """
    for name in given:
        if name not in FIELDS:
            raise ConfigError("--map", f"there is no field {name!r}; the fields are {', '.join(FIELDS)}")
    return {name: _Parser(f"--map {name}", text).parse() for name, text in given.items()}


class _Parser:
    """A parser by recursive descent."""

    def __init__(self, place: str, text: str) -> None:
        self.place, self.text, self.depth = place, text, 0
        self.tokens: list[tuple[str, str]] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ConfigError(place, f"cannot read {text[at:]!r:.40}")
            self.tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            at = match.end()
        self.at = 0

    def parse(self) -> Expression:
        """The whole text as one expression."""
        found = self._either()
        if self.at < len(self.tokens):
            self._fail()
        return found

    def _fail(self) -> Any:
        found = repr(self.tokens[self.at][1]) if self.at < len(self.tokens) else "the end"
        raise ConfigError(self.place, f"expected a value or an operator, got {found} in {self.text!r:.80}")

    def _take(self, *signs: str) -> str:
        """The next token if it is one of these, else nothing."""
        if self.at < len(self.tokens) and self.tokens[self.at][0] != "text" and self.tokens[self.at][1] in signs:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return ""

    def _either(self) -> Expression:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ConfigError(self.place, f"more than {MAX_DEPTH} parentheses")
        choices = [self._equal()]
        while self._take("or"):
            choices.append(self._equal())
        self.depth -= 1
        return (
            choices[0]
            if len(choices) == 1
            else lambda record: next((value for choice in choices if (value := choice(record)) is not None), None)
        )

    def _equal(self) -> Expression:
        left = self._sum()
        sign = self._take("==", "!=")
        if not sign:
            return left
        right = self._sum()
        return lambda record: (left(record) == right(record)) == (sign == "==")

    def _sum(self) -> Expression:
        found = self._product()
        while sign := self._take("+", "-"):
            found = _calculation(found, self._product(), sign)
        return found

    def _product(self) -> Expression:
        found = self._value()
        while sign := self._take("*", "/"):
            found = _calculation(found, self._value(), sign)
        return found

    def _value(self) -> Expression:
        if self._take("("):
            found = self._either()
            return found if self._take(")") else self._fail()
        if self._take("["):
            self.at -= 1
            return self._path([])
        if self.at >= len(self.tokens):
            return self._fail()  # type: ignore[no-any-return]
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return lambda record: float(text) if set(text) & set(".eE") else int(text)
        if kind == "text":
            return lambda record: text[1:-1]
        if kind == "name" and text not in ("or",):
            return (lambda record: _WORDS[text]) if text in _WORDS else self._path([text])
        self.at -= 1
        return self._fail()  # type: ignore[no-any-return]

    def _path(self, steps: list[str]) -> Expression:
        while True:
            if self._take("."):
                kind, text = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
                if kind not in ("name", "number"):
                    self._fail()
                steps += text.split(".")  # two numbers with a point between them are one token
                self.at += 1
            elif self._take("["):
                kind, text = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
                if kind not in ("text", "number"):
                    self._fail()
                steps.append(text[1:-1] if kind == "text" else text)
                self.at += 1
                if not self._take("]"):
                    self._fail()
            else:
                return lambda record: _inside(record, steps)


def _inside(value: Any, steps: list[str]) -> Value:
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _calculation(left: Expression, right: Expression, sign: str) -> Expression:
    def calculate(record: Mapping[str, Any]) -> Value:
        a, b = number(left(record)), number(right(record))
        if a is None or b is None or (sign == "/" and b == 0):
            return None
        return {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else 0.0}[sign]

    return calculate


def number(value: Any) -> float | None:
    """A number, or a time in ISO 8601 as seconds; None for everything else."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value)
    try:
        found = float(value)
        return found if math.isfinite(found) else None
    except (TypeError, ValueError):
        pass
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
