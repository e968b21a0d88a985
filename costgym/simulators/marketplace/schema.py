"""Check a call's arguments against a tool's parameters, by the part of JSON Schema that function calling uses."""

import math
from collections.abc import Mapping
from typing import Any

from costgym.simulators.tools import Tool

_WORDS = {
    "string": "a text", "number": "a number", "integer": "a whole number", "boolean": "true or false", "array": "a list",
    "object": "an object", "null": "null",
}  # fmt: skip
_TYPES: dict[str, type] = {"string": str, "boolean": bool, "array": list, "object": Mapping, "null": type(None)}


def check_arguments(tool: Tool, arguments: Any) -> str | None:
    """Say what is wrong with the arguments under the tool's schema, or None; never raises, looks no deeper than the schema."""
    return check_value(arguments, tool.parameters, "arguments")


def check_value(value: Any, schema: Mapping[str, Any], path: str) -> str | None:
    """Say in words what is wrong with a value; see `check_arguments`."""
    wanted = schema.get("type")
    if wanted == "string" and type(value) is str and schema.get("enum") is None:
        return None  # what nearly all arguments are
    if wanted == "object" and type(value) is dict and schema.get("enum") is None:
        return _check_members(value, schema, path)
    if wanted is not None:
        types = wanted if isinstance(wanted, list | tuple) else (wanted,)
        if not any(_is(value, name) for name in types):
            words = " or ".join(_WORDS.get(name, str(name)) for name in types)
            return f"{path}: expected {words}, got {_show(value)}"
    choices = schema.get("enum")
    if choices is not None and not any(_same(value, choice) for choice in choices):
        return f"{path}: expected one of {', '.join(map(_show, choices))}, got {_show(value)}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum"), schema.get("maximum")
        if low is not None and value < low:
            return f"{path}: expected at least {low}, got {_show(value)}"
        if high is not None and value > high:
            return f"{path}: expected at most {high}, got {_show(value)}"
    if isinstance(value, Mapping):
        return _check_members(value, schema, path)
    items = schema.get("items")
    if isinstance(value, list) and items:
        problems = (check_value(member, items, f"{path}[{index}]") for index, member in enumerate(value))
        return next(filter(None, problems), None)
    return None


def _check_members(value: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> str | None:
    prefix = "" if path == "arguments" else f"{path}."
    for name in schema.get("required", ()):
        if name not in value:
            return f"{prefix}{name}: required, but missing"
    properties = schema.get("properties", {})
    for name, member in value.items():
        known = properties.get(name) if isinstance(name, str) else None
        if known is not None:
            problem = check_value(member, known, f"{prefix}{name}")
            if problem:
                return problem
        elif schema.get("additionalProperties") is False:
            names = ", ".join(properties) or "none"
            return f"{prefix}{_show(name)[:60]}: unknown argument; known: {names}"
    return None


def _is(value: Any, name: object) -> bool:
    if name in ("integer", "number"):
        if isinstance(value, float):
            return value.is_integer() if name == "integer" else math.isfinite(value)
        return isinstance(value, int) and not isinstance(value, bool)
    # a type that JSON does not have admits anything
    return isinstance(value, _TYPES.get(name, object) if isinstance(name, str) else object)


def _same(value: Any, choice: Any) -> bool:
    # only plain values can be equal: comparing nested ones might go as deep as they do
    if isinstance(value, bool) != isinstance(choice, bool):
        return False
    return isinstance(value, str | int | float | None) and isinstance(choice, str | int | float | None) and value == choice


def _show(value: Any) -> str:
    """A value for an error message, cut short. It is safe for values that cannot be printed."""
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:37] + "...")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        return repr(value) if value.bit_length() <= 128 else "a huge number"
    return "a list" if isinstance(value, list | tuple) else "an object" if isinstance(value, Mapping) else type(value).__name__
