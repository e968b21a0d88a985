"""Read one document of any kind that is known."""

import hashlib
from collections.abc import Iterator
from typing import Any

from costgym.simulators.errors import DataError
from costgym.simulators.forge.readers import botocore, discovery, functions, openapi
from costgym.simulators.forge.readers.documents import Fetch, parse
from costgym.simulators.forge.readers.operations import MAX_OPERATIONS, Api, Operation, Skipped

SUFFIXES = (".json", ".yaml", ".yml", ".json.gz", ".py")  # of files that may be documents
READERS: dict[str, Any] = {"openapi": openapi, "discovery": discovery, "botocore": botocore}  # tried in this order


def read_document(name: str, content: bytes, fetch: Fetch | None = None) -> Api:
    """Read an API from a document; `fetch` reads another file of its source. Raises DataError where it cannot be read, or is of
    no known kind; says where and why."""
    digest, file = hashlib.sha256(content).hexdigest()[:16], name.rsplit("/", 1)[-1]
    if name.endswith(".py"):
        title = file.removesuffix(".py")
        return Api(name, "python", title, title, "functions", digest, *_parts(functions.python_operations(content, name), name))
    document = parse(content, name)
    for kind, reader in READERS.items():
        if isinstance(document, dict) and reader.matches(document):
            title, provider, category = reader.about(document, name)
            return Api(name, kind, title, provider, category, digest, *_parts(reader.operations(document, name, fetch), name))
    if (tools := functions.tools_of(document)) is not None:
        title = file.split(".")[0]
        return Api(name, tools[0], title, title, "tools", digest, *_parts(functions.operations(tools[1], name), name))
    if not isinstance(document, dict):
        raise DataError(name, f"expected an API document or a list of tools, got {type(document).__name__}")
    if "openapi" in document or "swagger" in document:
        called = "webhooks, which call the reader of the document" if document.get("webhooks") else "no operations"
        raise DataError(name, f"expected `paths` in an OpenAPI document, got {called}; give one whose operations can be called")
    keys = ", ".join(str(key)[:20] for key in list(document)[:6])
    known = "OpenAPI 2 or 3, MCP tools/list, function schemas, a botocore model or a Google discovery document"
    raise DataError(name, f"expected {known}, got a document with the keys {keys or 'none'}")


def _parts(results: Iterator[Operation | Skipped], name: str) -> tuple[tuple[Operation, ...], tuple[Skipped, ...]]:
    """The operations that a reader finds, as many as are read of one document, and the parts that could not be read."""
    operations: list[Operation] = []
    skipped: list[Skipped] = []
    for result in results:
        if isinstance(result, Skipped):
            skipped.append(result)
        elif len(operations) < MAX_OPERATIONS:
            operations.append(result)
        else:
            skipped.append(Skipped(name, f"only the first {MAX_OPERATIONS} operations are read"))
            break
    return tuple(operations), tuple(skipped)
