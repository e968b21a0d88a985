"""Read OpenAPI 2 and 3 documents."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from costgym.simulators.errors import DataError
from costgym.simulators.forge.readers.documents import Fetch, References, line, listing, mapping
from costgym.simulators.forge.readers.operations import LONGEST, Field, Operation, Parameter, Skipped
from costgym.simulators.forge.readers.shapes import fields, members, plain, told_example

# HTTP methods that are read, and whether they write
METHODS = {"get": False, "head": False, "post": True, "put": True, "patch": True, "delete": True}
_HOST = re.compile(r"^(?:https?:)?//([\w.-]+)")


def matches(document: Mapping[str, Any]) -> bool:
    """Return whether a document says that it is an OpenAPI one."""
    return isinstance(document.get("paths"), dict) and ("openapi" in document or "swagger" in document)


def about(document: Mapping[str, Any], name: str) -> tuple[str, str, str]:
    """Title, provider and category of an API."""
    info = mapping(document.get("info"))
    servers = listing(document.get("servers"))
    url = mapping(servers[0]).get("url") if servers else None
    host = document.get("host")
    if not isinstance(host, str):
        match = _HOST.match(url) if isinstance(url, str) else None
        host = match[1] if match else ""
    categories = [line(category, 40) for category in listing(info.get("x-apisguru-categories"))]
    provider = line(info.get("x-providerName"), 60) or line(host.removeprefix("api."), 60) or name.rsplit("/", 1)[-1]
    return line(info.get("title"), 80) or name, provider, next(filter(None, categories), "other")


def operations(document: Mapping[str, Any], name: str, fetch: Fetch | None) -> Iterator[Operation | Skipped]:
    """All operations of an OpenAPI document, and the parts that could not be read; `fetch` reads another file of its source."""
    references = References(document, name, fetch)
    for path, path_item in mapping(document.get("paths")).items():
        try:
            item, base = references.resolve(path_item)
        except DataError as error:
            yield Skipped(f"{name}, paths.{path:.80}", error.problem)
            continue
        for method, writes in METHODS.items():
            if not isinstance(item.get(method), dict):
                continue
            try:
                yield _operation(path, method, writes, item, references, base)
            except DataError as error:
                yield Skipped(f"{name}, paths.{path:.80}.{method}", error.problem)


def _operation(path: str, method: str, writes: bool, item: Mapping[str, Any], references: References, base: Any) -> Operation:
    described = mapping(item[method])
    parameters: dict[tuple[str, str], Parameter] = {}
    for parameter in (*listing(item.get("parameters")), *listing(described.get("parameters"))):
        spec, parameter_base = references.resolve(parameter, base)
        where, label = spec.get("in"), line(spec.get("name"), 100)
        if not label or where not in ("path", "query", "header", "body", "formData"):
            continue
        if where == "body":
            parameters |= {("body", member.name): member for member in members(spec.get("schema"), references, parameter_base)}
            continue
        schema = plain(spec.get("schema", spec), references, parameter_base)
        if "example" not in schema and isinstance(spec.get("example"), str | int | float):
            schema["example"] = spec["example"]
        required = spec.get("required") is True or where == "path"
        description = line(spec.get("description"), 200)
        if (
            schema.get("type", "string") == "string"
            and not schema.keys() & {"enum", "example"}
            and (example := told_example(description))
        ):
            schema["example"] = example
        parameters[where, label] = Parameter(label, schema, required, "body" if where == "formData" else where, description)
    if "requestBody" in described:
        body, parameter_base = references.resolve(described["requestBody"], base)
        parameters |= {("body", member.name): member for member in members(_content(body), references, parameter_base)}
    statuses, shape = _responses(mapping(described.get("responses")), references, base)
    summary, description = line(described.get("summary"), 160), line(described.get("description"), LONGEST)
    label = line(described.get("operationId"), 100) or f"{method} {path}"
    made = tuple(parameters.values())
    return Operation(label, writes, line(path, 300), summary, description, made, shape, tuple(statuses), method=method)


def _responses(responses: Mapping[str, Any], references: References, base: Any) -> tuple[list[int], tuple[Field, ...]]:
    statuses = sorted({int(code) for code in responses if re.fullmatch("[45][0-9]{2}", str(code))})
    right = sorted(str(code) for code in responses if str(code)[:1] == "2") or [str(c) for c in responses if c == "default"]
    by_text = {str(code): response for code, response in responses.items()}
    for code in right:
        resolved, response_base = references.resolve(by_text[code], base)
        shape = fields(resolved.get("schema") or _content(resolved), references, response_base)
        if shape:
            return statuses, shape
    return statuses, ()


def _content(body: Mapping[str, Any]) -> Any:
    """The schema of the JSON content of a body, or of its first content."""
    content = mapping(body.get("content"))
    chosen = next((kind for kind in content if isinstance(kind, str) and "json" in kind), next(iter(content), None))
    return mapping(content.get(chosen)).get("schema") if chosen is not None else None
