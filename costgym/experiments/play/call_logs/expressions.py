"""Expressions that say where a log of another shape has its fields, for example `latency_s=(end - start) / 1000`.

There are paths (`a.b.0.c`, `a["b-c"]`; null where a value is missing), numbers, texts, true, false and null, `* / + -` (times
in ISO 8601 count as seconds), `==`, `!=`, and `or`, which takes the first that is not null. An expression is parsed as Python
and only these forms are accepted; nothing is evaluated as Python, and nothing but the record can be reached.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from costgym.simulators.errors import ConfigError

FIELDS = (
    "tool", "started", "latency_s", "status", "price", "input_tokens", "output_tokens", "cold", "episode", "capability",
    "category", "provider",
)  # fmt: skip
"""Fields of a call that an expression can give."""
Expression = Callable[[Mapping[str, Any]], Any]
_TOKEN = re.compile(r"""'[^']*'|"[^"]*"|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[A-Za-z_][\w-]*|\.\d+""")
_WORDS = {"true": True, "false": False, "null": None}
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


def parse_fields(texts: Mapping[str, str]) -> dict[str, Expression]:
    """Parse expressions by field; raises ConfigError if a field is unknown, or an expression cannot be read; names it."""
    for name in texts:
        if name not in FIELDS:
            raise ConfigError("--map", f"there is no field {name!r}; the fields are {', '.join(FIELDS)}")
    return {name: _parse(f"--map {name}", text) for name, text in texts.items()}


def _parse(option_name: str, text: str) -> Expression:
    names: list[str] = []

    def as_python(token: re.Match[str]) -> str:
        """Names become v0, v1, ..., since a record's may hold hyphens or be Python's words; an index after a point a[0]."""
        name = token[0]
        if name.startswith("."):
            return f"[{name[1:]}]"
        if not (name[0].isalpha() or name[0] == "_") or name == "or":
            return name
        names.append(name)
        return f"v{len(names) - 1}"

    try:
        return _expression(ast.parse(_TOKEN.sub(as_python, text.strip()), mode="eval").body, names)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ConfigError(option_name, f"expected paths, numbers, texts and operators, got {text!r:.80}") from None


def _expression(node: ast.expr, names: Sequence[str]) -> Expression:
    """The function of a record that an expression stands for; raises ValueError for other Python."""
    match node:
        case ast.Name(id=name) if names[int(name[1:])] in _WORDS:
            return lambda record: _WORDS[names[int(name[1:])]]
        case ast.Constant(value=str() | int() | float() as value) if not isinstance(value, bool):
            return lambda record: value
        case ast.BoolOp(op=ast.Or()):
            choices = [_expression(part, names) for part in node.values]
            return lambda record: next((value for choice in choices if (value := choice(record)) is not None), None)
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() as sign], comparators=[other]):
            left, right = _expression(node.left, names), _expression(other, names)
            return lambda record: (left(record) == right(record)) == isinstance(sign, ast.Eq)
        case ast.BinOp(op=sign) if type(sign) in _OPERATORS:
            return _calculation(_expression(node.left, names), _expression(node.right, names), _OPERATORS[type(sign)])
    steps = _path(node, names)
    return lambda record: _inside(record, steps)


def _path(node: ast.expr, names: Sequence[str]) -> list[str]:
    match node:
        case ast.Name(id=name):
            return [names[int(name[1:])]]
        case ast.List(elts=[ast.Constant(value=str() as name)]):
            return [name]
        case ast.Attribute(value=before, attr=name):
            return [*_path(before, names), names[int(name[1:])]]
        case ast.Subscript(value=before, slice=ast.Constant(value=str() | int() as name)):
            return [*_path(before, names), str(name)]
    raise ValueError


def _inside(value: Any, steps: list[str]) -> Any:
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _calculation(left: Expression, right: Expression, apply: Callable[[float, float], float]) -> Expression:
    def calculate(record: Mapping[str, Any]) -> float | None:
        a, b = number(left(record)), number(right(record))
        if a is None or b is None or (apply is operator.truediv and b == 0):
            return None
        return apply(a, b)

    return calculate


def number(value: Any) -> float | None:
    """A number, or a time in ISO 8601 as seconds; None for everything else."""
    if isinstance(value, bool) or value is None or not isinstance(value, int | float | str):
        return None
    try:
        plain = float(value)
        return plain if math.isfinite(plain) or not isinstance(value, str) else None
    except (ValueError, OverflowError):
        pass
    try:
        moment = datetime.fromisoformat(value)  # type: ignore[arg-type]
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
