"""The shapes of requests and responses: schemas with their references resolved, and the values that a response holds."""

import math
import re
from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any

from costgym.simulators.errors import DataError
from costgym.simulators.forge.readers.documents import References, line, listing, mapping
from costgym.simulators.forge.readers.operations import RESULT, Field, Parameter

MAX_FIELDS = 60  # values that are read from one response
MAX_LEVELS = 5  # deepest value that is read from a response, and deepest schema of a parameter
MAX_CHOICES = 60  # values of an enumeration that are kept
_TEMPLATE = re.compile(r"[{}<>|\\]")
_TYPES = ("string", "integer", "number", "boolean", "array", "object")
_WIDEST = 2**53  # largest bound of a number that JSON readers agree on


def plain(schema: Any, references: References, base: Any = None, level: int = 0) -> dict[str, Any]:
    """A parameter's schema by itself, `level` others around it: references resolved, and only what function calling uses."""
    try:
        found, base = references.resolve(schema, base)
        found = merged(found, references, base)
    except DataError:
        return {}
    kind = type_of(found)
    made: dict[str, Any] = {"type": kind} if kind else {}
    choices = [each for each in listing(found.get("enum"))[:MAX_CHOICES] if _scalar(each)]
    if choices and len(choices) == len(listing(found.get("enum"))):
        made["enum"] = choices
    for key in ("format", "pattern"):
        if isinstance(found.get(key), str) and len(found[key]) <= 100:
            made[key] = line(found[key])
    for key in ("minimum", "maximum"):
        bound = found.get(key)
        if isinstance(bound, int | float) and not isinstance(bound, bool) and math.isfinite(bound) and abs(bound) <= _WIDEST:
            made[key] = bound
    if _scalar(found.get("default")):
        made["default"] = found["default"]
    if (example := example_of(found)) is not None:
        made["example"] = example
    if kind == "array" and level < MAX_LEVELS:
        made["items"] = plain(found.get("items"), references, base, level + 1)
    if kind == "object" and level < MAX_LEVELS:
        properties = mapping(found.get("properties"))
        made["properties"] = {
            line(name, 100): plain(each, references, base, level + 1) for name, each in islice(properties.items(), MAX_FIELDS)
        }
        made["required"] = [name for name in listing(found.get("required")) if name in made["properties"]]
    return made


def members(
    schema: Any, references: References, base: Any = None, told: Mapping[str, str] = MappingProxyType({})
) -> tuple[Parameter, ...]:
    """The members of a request's body as arguments; `told` are their descriptions."""
    made = plain(schema, references, base)
    found, required = mapping(made.get("properties")).items(), set(made.get("required", ()))
    return tuple(Parameter(name, each, name in required, "body", told.get(name, "")) for name, each in found if name)


def merged(schema: Mapping[str, Any], references: References, base: Any) -> Mapping[str, Any]:
    """A schema with the parts of `allOf` in one, and of `oneOf` and `anyOf` the first that is more than null."""
    parts = [schema, *(references.resolve(part, base)[0] for part in listing(schema.get("allOf"))[:20])]
    for key in ("oneOf", "anyOf"):
        choices = (references.resolve(part, base)[0] for part in listing(schema.get(key))[:20])
        parts += islice((choice for choice in choices if choice.get("type") != "null"), 1)
    if len(parts) == 1:
        return schema
    together: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    required: list[Any] = []
    for part in reversed(parts):
        together |= {key: value for key, value in part.items() if key not in ("allOf", "oneOf", "anyOf", "$ref")}
        properties |= mapping(part.get("properties"))
        required += listing(part.get("required"))
    return {**together, "properties": properties, "required": required} if properties else together


def type_of(schema: Mapping[str, Any]) -> str:
    """The type of a schema's values; "" where it does not say."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), None)
    if isinstance(kind, str) and kind in _TYPES:
        return kind
    if "properties" in schema:
        return "object"
    if "items" in schema:
        return "array"
    return "string" if schema.get("enum") and all(isinstance(each, str) for each in listing(schema["enum"])) else ""


def _scalar(value: Any) -> bool:
    if isinstance(value, str):  # text with braces or angles is a template's, or markup
        return 0 < len(value) <= 200 and value.isprintable() and value.isascii() and not _TEMPLATE.search(value)
    return isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))


def example_of(schema: Mapping[str, Any]) -> Any:
    """A plain example of the schema's values; None where there is no usable one."""
    several = schema.get("examples")
    found = schema.get("example", several[0] if isinstance(several, list) and several else None)
    return found if _scalar(found) and found != "" else None


def fields(schema: Any, references: References, base: Any = None) -> tuple[Field, ...]:
    """The plain values that a response of this schema holds, the outer ones first."""
    found: list[Field] = []
    level: list[tuple[tuple[str, ...], Any, Any]] = [((), schema, base)]
    for depth in range(MAX_LEVELS + 1):
        following: list[tuple[tuple[str, ...], Any, Any]] = []
        for path, each, place in level:
            try:
                here, inner = references.resolve(each, place)
                here = merged(here, references, inner)
            except DataError:
                continue
            kind = type_of(here)
            if kind == "object" and depth < MAX_LEVELS:
                following += [
                    ((*path, name), part, inner)
                    for name, part in islice(mapping(here.get("properties")).items(), MAX_FIELDS)
                    if isinstance(name, str) and 0 < len(name) <= 80 and name.isprintable()
                ]
            elif kind == "array" and depth < MAX_LEVELS:
                following.append(((*path, "[]"), here.get("items"), inner))
            elif kind in ("string", "integer", "number") and path:
                found.append(Field(path, _leaf(here, kind)))
                if len(found) >= MAX_FIELDS:
                    return tuple(found)
        level = following[: 4 * MAX_FIELDS]
    return tuple(found)


def result_fields(schema: Any, references: References) -> tuple[Field, ...]:
    """The values that a function returns; one of a plain type, where its result is plain or is not described."""
    found = fields(schema, references)
    kind = type_of(schema) if isinstance(schema, dict) else ""
    return found or (Field(RESULT, {"type": kind if kind in ("integer", "number") else "string"}),)


def _leaf(schema: Mapping[str, Any], kind: str) -> dict[str, Any]:
    made: dict[str, Any] = {"type": kind}
    if isinstance(schema.get("format"), str):
        made["format"] = line(schema["format"], 40)
    choices = listing(schema.get("enum"))
    if choices and len(choices) <= MAX_CHOICES and all(map(_scalar, choices)):
        made["enum"] = choices
    if (example := example_of(schema)) is not None:
        made["example"] = example
    if told := line(schema.get("description"), 200):
        made["description"] = told
    return made
