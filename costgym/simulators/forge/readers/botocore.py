"""Read botocore's service models."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from costgym.simulators.forge.readers.documents import Fetch, References, line, listing, mapping
from costgym.simulators.forge.readers.operations import Operation
from costgym.simulators.forge.readers.shapes import fields, members

_TAGS = re.compile(r"<[^>]{0,200}>")
_TYPES = {
    "structure": "object", "list": "array", "integer": "integer", "long": "integer", "float": "number", "double": "number",
    "boolean": "boolean", "string": "string", "timestamp": "string", "blob": "string", "map": "object", "character": "string",
}  # fmt: skip
_READS = ("Get", "List", "Describe", "Search", "Lookup", "Query", "Scan", "Head", "Preview", "Select", "View")
"""First words of the names of operations that read; AWS posts most of its requests, reads included."""


def matches(document: Mapping[str, Any]) -> bool:
    """Return whether a document is a service model."""
    return all(isinstance(document.get(key), dict) for key in ("metadata", "operations", "shapes"))


def about(document: Mapping[str, Any], name: str) -> tuple[str, str, str]:
    """Title, provider and category of an API."""
    metadata = mapping(document.get("metadata"))
    provider = f"{line(metadata.get('endpointPrefix'), 40)}.amazonaws.com".lstrip(".")
    return line(metadata.get("serviceFullName"), 80) or name, provider, "cloud"


def operations(document: Mapping[str, Any], name: str, fetch: Fetch | None = None) -> Iterator[Operation]:
    """All operations of a service model."""
    shapes = mapping(document.get("shapes"))
    references = References({"shapes": {key: _schema(mapping(member)) for key, member in shapes.items()}}, name)
    for label, operation in mapping(document.get("operations")).items():
        if not isinstance(operation, dict):
            continue
        http = mapping(operation.get("http"))
        text = _text(operation.get("documentation"))
        taken = mapping(_shape(shapes, operation.get("input")).get("members"))
        words = {key: _text(mapping(member).get("documentation"), 200) for key, member in taken.items()}
        parameters = members(_pointer(operation.get("input")), references, about=words)
        errors = (_shape(shapes, member) for member in listing(operation.get("errors")))
        codes = {mapping(mapping(error).get("error")).get("httpStatusCode") for error in errors}
        reads = label.startswith(_READS) or http.get("method") == "GET"
        shape = fields(_pointer(operation.get("output")), references)
        statuses = tuple(sorted(code for code in codes if isinstance(code, int) and 400 <= code < 600))
        yield Operation(line(label, 100), not reads, "", text.split(". ")[0][:160], text, parameters, shape, statuses)


def _text(value: Any, longest: int = 400) -> str:
    return line(_TAGS.sub(" ", value[: 8 * longest]), longest) if isinstance(value, str) else ""


def _shape(shapes: Mapping[str, Any], use: Any) -> Mapping[str, Any]:
    """The shape that a use of it names; an empty one where there is none."""
    name = mapping(use).get("shape")
    return mapping(shapes.get(name)) if isinstance(name, str) else {}


def _pointer(use: Any) -> dict[str, str]:
    shape = mapping(use).get("shape")
    return {"$ref": f"#/shapes/{shape}"} if isinstance(shape, str) else {}


def _schema(shape: Mapping[str, Any]) -> dict[str, Any]:
    """A shape as JSON schema."""
    kind = shape.get("type")
    made: dict[str, Any] = {"type": _TYPES.get(kind, "string") if isinstance(kind, str) else "string"}
    if kind == "structure":
        members = {key: _pointer(member) for key, member in mapping(shape.get("members")).items()}
        made |= {"properties": members, "required": listing(shape.get("required"))}
    elif kind == "list":
        made["items"] = _pointer(shape.get("member"))
    elif kind == "timestamp":
        made["format"] = "date-time"
    for ours, theirs in (("enum", "enum"), ("pattern", "pattern"), ("minimum", "min"), ("maximum", "max")):
        if theirs in shape and (made["type"] in ("integer", "number") or ours in ("enum", "pattern")):
            made[ours] = shape[theirs]
    return made
