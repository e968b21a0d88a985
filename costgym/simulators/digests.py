"""Digests of worlds, by which records name them: canonical JSON under the number of its schema.

Schema 1 leaves defaults out, so that a field that is added later changes no digest. Whoever changes a default needs a new
schema. Schema 0 is that of version 0.2, whose records are still read; its digests have no number.
"""

import hashlib
import json
from collections.abc import Mapping
from collections.abc import Set as AnySet
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import cache
from typing import Any

from pydantic import BaseModel

SCHEMA = 1


def schema_of(digest: str) -> int:
    """The schema of a recorded digest, which stands before its dash; 0 where there is none, -1 where it makes no sense."""
    number, dash, _ = digest.partition("-")
    return 0 if not dash else int(number) if number.isascii() and number.isdigit() and len(number) < 4 else -1


def short_hash(text: str) -> str:
    """The SHA-256 of a text, 16 digits of hex."""
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def digest_of(value: Any) -> str:
    """The digest under the present schema of plain data, dataclasses and pydantic models."""
    return f"{SCHEMA}-{short_hash(json.dumps(canonical(value), sort_keys=True, separators=(',', ':')))}"


def canonical(value: Any) -> Any:
    """A value as plain data: dataclasses and models without what is at its default, equal numbers alike, sets in order."""
    if isinstance(value, BaseModel):
        return canonical(value.model_dump(mode="json", exclude_defaults=True))
    if is_dataclass(value) and not isinstance(value, type):
        shown = {spec.name: getattr(value, spec.name) for spec in fields(value) if getattr(value, spec.name) != _default(spec)}
        return canonical(shown)
    if isinstance(value, Mapping):
        return {str(name): canonical(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(part) for part in value]
    if isinstance(value, AnySet):
        return sorted((canonical(part) for part in value), key=json.dumps)
    if isinstance(value, float) and value.is_integer():
        return int(value)  # a file may write 1 or 1.0
    return value


def _default(spec: "Field[Any]") -> Any:
    return spec.default_factory() if spec.default_factory is not MISSING else spec.default


# -- schema 0 ------------------------------------------------------------------------------------------------------------------

_YOUNGER: Mapping[str, tuple[str, ...]] = {
    "ToolProfile": ("slip", "persistence", "latency_quantiles", "result_tokens", "result_spread"),
    "Tool": ("effect",),
    "Need": ("fact_type", "tolerance", "accept", "asked", "optional", "state", "amount", "given", "rivals"),
}
"""Fields that schema 0 leaves out at their defaults, since worlds had been recorded before these were there."""
_RENAMED = {"fact_path": "place"}  # fields by the names that they had in schema 0


_PLAIN = frozenset({str, int, float, bool, type(None)})


@cache
def _fields_of(kind: type[Any]) -> tuple[tuple["Field[Any]", bool], ...]:
    """The fields that the `repr` of a dataclass shows, and whether each is younger than schema 0."""
    return tuple((spec, spec.name in _YOUNGER.get(kind.__name__, ())) for spec in fields(kind) if spec.repr)


def recorded_text(value: Any) -> str:
    """What version 0.2 hashed of tasks and tools: the `repr` of their dataclasses, without younger fields at their defaults."""
    kind = type(value)
    if kind in _PLAIN:  # nine of ten values
        return repr(value)
    if is_dataclass(kind):
        name = kind.__name__
        if name == "Need" and getattr(value, "fact_type", "") == "words":
            value = replace(value, fact_type="")  # the recorded worlds whose facts are looked for as words do not say so
        values = ((spec, getattr(value, spec.name), younger) for spec, younger in _fields_of(kind))
        shown = ((spec.name, part) for spec, part, younger in values if not younger or part != spec.default)
        parts = [f"{_RENAMED.get(name_of_field, name_of_field)}={recorded_text(part)}" for name_of_field, part in shown]
        return f"{name}({', '.join(parts)})"
    if kind is tuple:
        return f"({', '.join(map(recorded_text, value))}{',' if len(value) == 1 else ''})"
    if kind is list:
        return f"[{', '.join(map(recorded_text, value))}]"
    if kind is dict:
        return f"{{{', '.join(f'{recorded_text(name)}: {recorded_text(part)}' for name, part in value.items())}}}"
    return repr(value)
