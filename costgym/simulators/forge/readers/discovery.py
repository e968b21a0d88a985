"""Read discovery documents of Google's APIs."""

from collections.abc import Iterator, Mapping
from typing import Any

from costgym.simulators.forge.readers.documents import Fetch, References, line, mapping
from costgym.simulators.forge.readers.operations import Operation, Parameter
from costgym.simulators.forge.readers.shapes import fields, plain


def matches(document: Mapping[str, Any]) -> bool:
    """Return whether a document is a discovery document."""
    return str(document.get("kind", "")).startswith("discovery#restDescription") or (
        "discoveryVersion" in document and "resources" in document
    )


def about(document: Mapping[str, Any], name: str) -> tuple[str, str, str]:
    """Title, provider and category of an API."""
    provider = line(document.get("ownerDomain"), 60) or "google.com"
    title = line(document.get("title"), 80) or name
    return title, f"{line(document.get('name'), 40)}.{provider}".lstrip("."), "cloud"


def operations(document: Mapping[str, Any], name: str, fetch: Fetch | None = None) -> Iterator[Operation]:
    """All methods of a discovery document; it refers to its schemas by their bare names."""
    schemas = mapping(document.get("schemas"))
    references = References({"schemas": _pointers(schemas, 0)}, name)
    for method in _methods(document, 0):
        verb = str(method.get("httpMethod", "GET")).lower()
        response = mapping(method.get("response")).get("$ref")
        parameters = [
            Parameter(
                line(label, 100),
                plain(spec, references),
                mapping(spec).get("required") is True,
                "path" if mapping(spec).get("location") == "path" else "query",
                line(mapping(spec).get("description"), 200),
            )
            for label, spec in mapping(method.get("parameters")).items()
            if line(label, 100)
        ]
        description = line(method.get("description"))
        shape = fields(_pointer(response), references) if isinstance(response, str) else ()
        summary = description.split(". ")[0][:160]
        path = line(method.get("flatPath") or method.get("path"), 300)
        label = line(method.get("id"), 100) or f"{verb} {path}"
        yield Operation(label, verb != "get", path, summary, description, tuple(parameters), shape)


def _methods(resource: Mapping[str, Any], depth: int) -> Iterator[Mapping[str, Any]]:
    for method in mapping(resource.get("methods")).values():
        if isinstance(method, dict):
            yield method
    if depth < 10:
        for inner in mapping(resource.get("resources")).values():
            yield from _methods(mapping(inner), depth + 1)


def _pointer(name: str) -> dict[str, str]:
    return {"$ref": "#/schemas/" + name.replace("~", "~0").replace("/", "~1")}


def _pointers(value: Any, depth: int) -> Any:
    """The same schemas with references as JSON pointers."""
    if depth > 60:
        return {}
    if isinstance(value, list):
        return [_pointers(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str):
        return _pointer(reference)
    return {key: _pointers(item, depth + 1) for key, item in value.items()}
