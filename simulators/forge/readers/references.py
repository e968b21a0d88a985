"""Resolve the references of a document, within it and to other files of its source; never over the network."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

from ...errors import DataError, require
from .documents import Fetch, inside, parse

_BASE = "file:///"
MAX_FOLLOWED = 50
"""Most references that lead to one another."""
MAX_FILES = 500
"""Most files that one document refers to."""


def _uri(name: str) -> str:
    return _BASE + quote(name)


class References:
    """The references of one document.

    Args:
        document: The parsed document.
        name: Its path within its source.
        fetch: Reads another file of the source; None where there is none.

    Raises:
        MissingExtra: `referencing` is not installed.
    """

    def __init__(self, document: Any, name: str, fetch: Fetch | None = None) -> None:
        library = require("referencing", "forge")
        unresolvable: type[Exception] = require("referencing.exceptions", "forge").Unresolvable
        self._errors: tuple[type[Exception], ...] = (unresolvable, ValueError, LookupError, TypeError)
        self._resource = library.Resource.opaque
        self._fetch, self._files = fetch, 0
        registry = library.Registry(retrieve=self._retrieve).with_resource(_uri(name), self._resource(document))
        self._resolver = registry.resolver(_uri(name))
        self._name = name
        self._found: dict[tuple[str, str], tuple[Any, Any]] = {}

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
        """Follow the references of a mapping until it has none.

        Args:
            base: The place that its references start from, as this method returned it; None for the document.

        Returns:
            The mapping that is meant, and the place that its own references start from. Anything that is not a mapping gives
            an empty one.

        Raises:
            DataError: A reference leads nowhere, out of the source, or in a circle.
        """
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
        if key not in self._found:
            file, _, pointer = reference.partition("#")
            other = name if not file else inside(name, file)
            if other is None:
                raise DataError(self._name, f"{reference!r:.120} leads out of the source and is not fetched", "$ref")
            try:
                found = resolver.lookup(f"{_uri(other)}#{pointer}")
            except self._errors as error:
                cause = error.__cause__ if isinstance(error.__cause__, DataError) else None
                raise DataError(self._name, str(cause) if cause else f"{reference!r:.120} leads nowhere", "$ref") from None
            self._found[key] = found.contents, (found.resolver, other)
        return self._found[key]
