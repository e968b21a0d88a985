"""Read one document of any kind that is known."""

from __future__ import annotations

import hashlib
from typing import Any

from ...errors import DataError
from . import botocore, discovery, functions, openapi, python_functions
from .documents import Fetch, parse
from .operations import Api, Operation, Skipped

SUFFIXES = (".json", ".yaml", ".yml", ".json.gz", ".py")
"""Ends of the names of files that may be documents."""


def read_document(name: str, content: bytes, fetch: Fetch | None = None) -> Api:
    """Read an API from a document.

    Args:
        name: The document's path within its source.
        content: Its bytes.
        fetch: Reads another file of the source by its path; None where there are none.

    Raises:
        DataError: It cannot be read, or is of no known kind; says where and why.
    """
    digest = hashlib.sha256(content).hexdigest()[:16]
    if name.endswith(".py"):
        found, skipped = python_functions.operations(content, name)
        title = name.rsplit("/", 1)[-1].removesuffix(".py")
        return _api(name, "python", (title, title, "functions"), digest, found, skipped)
    document = parse(content, name)
    return read_parsed(name, document, digest, fetch)


def read_parsed(name: str, document: Any, digest: str, fetch: Fetch | None = None) -> Api:
    """The same for a document that is parsed already."""
    if isinstance(document, dict) and openapi.is_openapi(document):
        found, skipped = openapi.operations(document, name, fetch)
        return _api(name, "openapi", openapi.about(document, name), digest, found, skipped)
    if isinstance(document, dict) and discovery.is_discovery(document):
        found, skipped = discovery.operations(document, name)
        return _api(name, "discovery", discovery.about(document, name), digest, found, skipped)
    if isinstance(document, dict) and botocore.is_service(document):
        found, skipped = botocore.operations(document, name)
        return _api(name, "botocore", botocore.about(document, name), digest, found, skipped)
    tools = functions.tools_of(document)
    if tools is not None:
        kind, listed = tools
        found, skipped = functions.operations(listed, name)
        title = name.rsplit("/", 1)[-1].split(".")[0]
        return _api(name, kind, (title, title, "tools"), digest, found, skipped)
    if not isinstance(document, dict):
        raise DataError(name, f"expected an API document or a list of tools, got {type(document).__name__}")
    keys = ", ".join(str(key)[:20] for key in list(document)[:6])
    known = "OpenAPI 2 or 3, MCP tools/list, function schemas, a botocore model or a Google discovery document"
    raise DataError(name, f"expected {known}, got a document with the keys {keys or 'none'}")


def _api(
    name: str,
    kind: str,
    about: tuple[str, str, str],
    digest: str,
    operations: list[Operation],
    skipped: list[Skipped],
) -> Api:
    return Api(name, kind, *about, digest, tuple(operations), tuple(skipped))
