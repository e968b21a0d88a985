"""Read one document of any kind that is known."""

from __future__ import annotations

import hashlib
from typing import Any

from ...errors import DataError
from . import botocore, discovery, functions, openapi, python_functions
from .documents import Fetch, parse
from .operations import Api

SUFFIXES = (".json", ".yaml", ".yml", ".json.gz", ".py")
"""Ends of the names of files that may be documents."""

READERS: dict[str, Any] = {"openapi": openapi, "discovery": discovery, "botocore": botocore}
"""Kinds of documents, in the order in which they are tried."""


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
        return Api(name, "python", title, title, "functions", digest, tuple(found), tuple(skipped))
    document = parse(content, name)
    for kind, reader in READERS.items():
        if isinstance(document, dict) and reader.matches(document):
            found, skipped = reader.operations(document, name, fetch)
            title, provider, category = reader.about(document, name)
            return Api(name, kind, title, provider, category, digest, tuple(found), tuple(skipped))
    tools = functions.tools_of(document)
    if tools is not None:
        kind, listed = tools
        found, skipped = functions.operations(listed, name)
        title = name.rsplit("/", 1)[-1].split(".")[0]
        return Api(name, kind, title, title, "tools", digest, tuple(found), tuple(skipped))
    if not isinstance(document, dict):
        raise DataError(name, f"expected an API document or a list of tools, got {type(document).__name__}")
    keys = ", ".join(str(key)[:20] for key in list(document)[:6])
    known = "OpenAPI 2 or 3, MCP tools/list, function schemas, a botocore model or a Google discovery document"
    raise DataError(name, f"expected {known}, got a document with the keys {keys or 'none'}")
