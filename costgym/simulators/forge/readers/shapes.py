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
MAX_PARTS = 60  # schemas that are merged into one
MAX_CHOICES = 60  # values of an enumeration that are kept
_TEMPLATE = re.compile(r"[{}<>|\\]")
_TYPES = ("string", "integer", "number", "boolean", "array", "object")
_OTHER_TYPES = {
    "dict": "object", "list": "array", "tuple": "array", "float": "number", "double": "number", "int": "integer",
    "long": "integer", "str": "string", "bool": "boolean",
}  # fmt: skip
"""Types as lists of functions name them that were written for Python."""
_WIDEST = 2**53  # largest bound of a number that JSON readers agree on


def plain(schema: Any, references: References, base: Any = None, level: int = 0) -> dict[str, Any]:
    """A parameter's schema by itself, `level` others around it: references resolved, and only what function calling uses."""
    try:
        resolved, base = references.resolve(schema, base)
        resolved = merged(resolved, references, base)
    except DataError:
        return {}
    kind = type_of(resolved)
    made: dict[str, Any] = {"type": kind} if kind else {}
    choices = [choice for choice in listing(resolved.get("enum"))[:MAX_CHOICES] if _scalar(choice)]
    if choices and len(choices) == len(listing(resolved.get("enum"))):
        made["enum"] = choices
    for key in ("format", "pattern"):
        if isinstance(resolved.get(key), str) and len(resolved[key]) <= 100:
            made[key] = line(resolved[key])
    for key in ("minimum", "maximum"):
        bound = resolved.get(key)
        if isinstance(bound, int | float) and not isinstance(bound, bool) and math.isfinite(bound) and abs(bound) <= _WIDEST:
            made[key] = bound
    if _scalar(resolved.get("default")):
        made["default"] = resolved["default"]
    if (example := example_of(resolved)) is not None:
        made["example"] = example
    elif kind in ("", "string") and "enum" not in made and (several := told_choices(line(resolved.get("description"), 600))):
        made["enum"] = several
    elif kind in ("", "string") and "enum" not in made and (example := told_example(line(resolved.get("description"), 400))):
        made["example"] = example
    if kind == "array" and level < MAX_LEVELS:
        made["items"] = plain(resolved.get("items"), references, base, level + 1)
    if kind == "object" and level < MAX_LEVELS:
        properties = mapping(resolved.get("properties"))
        made["properties"] = {
            line(name, 100): plain(choice, references, base, level + 1)
            for name, choice in islice(properties.items(), MAX_FIELDS)
        }
        made["required"] = [name for name in listing(resolved.get("required")) if name in made["properties"]]
    return made


def members(
    schema: Any, references: References, base: Any = None, about: Mapping[str, str] = MappingProxyType({})
) -> tuple[Parameter, ...]:
    """The members of a request's body as arguments; `about` are their descriptions."""
    made = plain(schema, references, base)
    named, required = mapping(made.get("properties")).items(), set(made.get("required", ()))
    return tuple(Parameter(name, part, name in required, "body", about.get(name, "")) for name, part in named if name)


def merged(schema: Mapping[str, Any], references: References, base: Any) -> Mapping[str, Any]:
    """A schema with the parts of `allOf` in one, and of `oneOf` and `anyOf` the first that is more than null, at every level of
    them. What two parts say of the same property holds together."""
    if not schema.keys() & {"allOf", "oneOf", "anyOf"}:
        return schema
    parts: list[Mapping[str, Any]] = []
    waiting, seen = [(schema, base)], {id(schema)}
    while waiting and len(parts) < MAX_PARTS:
        part, part_base = waiting.pop()
        parts.append(part)
        following = [references.resolve(choice, part_base) for choice in listing(part.get("allOf"))[:20]]
        for key in ("oneOf", "anyOf"):
            choices = (references.resolve(choice, part_base) for choice in listing(part.get(key))[:20])
            following += islice((choice for choice in choices if choice[0].get("type") != "null"), 1)
        for choice in reversed(following):  # depth first, in the order of the document
            if id(choice[0]) not in seen:
                seen.add(id(choice[0]))
                waiting.append(choice)
    together: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    required: list[Any] = []
    for part in reversed(parts):
        items = _both(together.get("items"), part.get("items"))
        together |= {key: value for key, value in part.items() if key not in ("allOf", "oneOf", "anyOf", "$ref")}
        if items is not None:
            together["items"] = items
        for name, choice in mapping(part.get("properties")).items():
            properties[name] = _both(properties.get(name), choice)
        required += listing(part.get("required"))
    return {**together, "properties": properties, "required": required} if properties else together


def _both(first: Any, second: Any) -> Any:
    """A schema that says what two say; the second's words come before the first's."""
    if first is None or second is None or first == second:
        return first if second is None else second
    return {"allOf": [second, first]}


def type_of(schema: Mapping[str, Any]) -> str:
    """The type of a schema's values; "" where it does not say."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((item for item in kind if item != "null"), None)
    if isinstance(kind, str):
        kind = _OTHER_TYPES.get(kind.lower(), kind.lower())
        if kind in _TYPES:
            return kind
    if "properties" in schema:
        return "object"
    if "items" in schema:
        return "array"
    return "string" if schema.get("enum") and all(isinstance(item, str) for item in listing(schema["enum"])) else ""


_TOLD = re.compile(
    r"(?:\be\.g\.|\bfor example|\bsuch as|\bexamples?:|\bformat(?:ted as|:)?)[,:]?\s*"
    r"(?:[`'\"]([^`'\"]{2,60})[`'\"]|([\w./:@+-]*[\d/@_-][\w./:@+-]*))",
    re.IGNORECASE,
)
_CHOICES = re.compile(r"\[\s*[\"'][\w .-]{1,40}[\"'](?:\s*,\s*[\"'][\w .-]{1,40}[\"'])+\s*\]")
_SHAPE = re.compile(r"[`'\"(]([A-Z]{2,8}(?:-[xX0-9]{2,8}){1,5})[`'\")]|\b([A-Z]{2,8}(?:-[xX]{2,8}){1,5})\b")


def told_example(text: str) -> str | None:
    """An example of a value that a description gives, such as `AAPL` or GHSA-xxxx-xxxx-xxxx; None where it gives none."""
    if shape := _SHAPE.search(text[:400]):
        return re.sub("[xX]", "7", shape[1] or shape[2])
    if match := _TOLD.search(text[:400]):
        example = (match[1] or match[2]).strip().rstrip(".,;")
        return example if len(example) > 1 and _scalar(example) and len(example.split()) <= 4 else None
    return None


def told_choices(text: str) -> list[str]:
    """The choices that a description lists, as in `["economy", "business"]`."""
    match = _CHOICES.search(text[:600])
    return re.findall(r"[\"']([\w .-]+)[\"']", match[0])[:MAX_CHOICES] if match else []


def _scalar(value: Any) -> bool:
    if isinstance(value, str):  # text with braces or angles is a template's, or markup
        return 0 < len(value) <= 200 and value.isprintable() and value.isascii() and not _TEMPLATE.search(value)
    return isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))


def example_of(schema: Mapping[str, Any]) -> Any:
    """A plain example of the schema's values; None where there is no usable one."""
    several = schema.get("examples")
    example = schema.get("example", several[0] if isinstance(several, list) and several else None)
    return example if _scalar(example) and example != "" else None


def fields(schema: Any, references: References, base: Any = None) -> tuple[Field, ...]:
    """The plain values that a response of this schema holds, the outer ones first."""
    listed: list[Field] = []
    level: list[tuple[tuple[str, ...], Any, Any]] = [((), schema, base)]
    for depth in range(MAX_LEVELS + 1):
        following: list[tuple[tuple[str, ...], Any, Any]] = []
        for path, part, part_base in level:
            try:
                here, inner = references.resolve(part, part_base)
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
                listed.append(Field(path, _leaf(here, kind)))
                if len(listed) >= MAX_FIELDS:
                    return tuple(listed)
        level = following[: 4 * MAX_FIELDS]
    return tuple(listed)


def result_fields(schema: Any, references: References) -> tuple[Field, ...]:
    """The values that a function returns; one of a plain type, where its result is plain or is not described."""
    listed = fields(schema, references)
    kind = type_of(schema) if isinstance(schema, dict) else ""
    return listed or (Field(RESULT, {"type": kind if kind in ("integer", "number") else "string"}),)


def _leaf(schema: Mapping[str, Any], kind: str) -> dict[str, Any]:
    made: dict[str, Any] = {"type": kind}
    if isinstance(schema.get("format"), str):
        made["format"] = line(schema["format"], 40)
    choices = listing(schema.get("enum"))
    if choices and len(choices) <= MAX_CHOICES and all(map(_scalar, choices)):
        made["enum"] = choices
    if (example := example_of(schema)) is not None:
        made["example"] = example
    if description := line(schema.get("description"), 200):
        made["description"] = description
    return made
