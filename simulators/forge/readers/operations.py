"""Operations of an API as every reader gives them, whatever the format of the document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_OPERATIONS = 5_000
"""Most operations that are read from one document; the rest is counted as left out."""

PLAIN = ("mcp", "functions", "python")
"""Kinds of documents that hardly ever say of which form a text is: an argument may be any short name there."""
RESULT = ("result",)
"""Path of the one value of a function whose result is plain or is not described; MCP servers wrap plain results so, too."""


@dataclass(frozen=True, slots=True)
class Field:
    """A value in a response.

    Attributes:
        path: Names that lead to it; "[]" for the items of a list.
        schema: Its type, format, enumeration, example and description.
    """

    path: tuple[str, ...]
    schema: Mapping[str, Any]

    @property
    def name(self) -> str:
        return next((part for part in reversed(self.path) if part != "[]"), "")

    @property
    def listed(self) -> int:
        """The number of lists around it."""
        return self.path.count("[]")


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of an operation.

    Attributes:
        name: Its name.
        schema: Its JSON schema, references resolved.
        required: A call must have it.
        place: "path", "query", "header" or "body".
        description: Its description.
    """

    name: str
    schema: Mapping[str, Any]
    required: bool = False
    place: str = "query"
    description: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that an API can do.

    Attributes:
        name: Its id in the document.
        writes: It changes something.
        path: URL path, where it has one.
        summary, description: The document's words.
        parameters: Arguments.
        fields: Values in the response; none where the document does not describe it.
        statuses: HTTP statuses of the errors that the document declares.
        label: Its name without a prefix that all names of the document share, where there is one.
    """

    name: str
    writes: bool
    path: str = ""
    summary: str = ""
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    fields: tuple[Field, ...] = ()
    statuses: tuple[int, ...] = ()
    label: str = ""

    @property
    def words(self) -> str:
        """What says in words what it does: its name, or as much of it as is its own."""
        return self.label or self.name


@dataclass(frozen=True, slots=True)
class Skipped:
    """A document, or a part of one, that could not be read: where, and why."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class Api:
    """A document that was read.

    Attributes:
        name: Its path within its source.
        kind: "openapi", "discovery", "botocore", "mcp", "functions" or "python".
        title: The API's title.
        provider: Who offers it, such as a domain.
        category: Field of business.
        digest: SHA-256 of the document, 16 hexadecimal digits.
        operations: All operations.
        skipped: Parts that could not be read.
    """

    name: str
    kind: str
    title: str
    provider: str
    category: str
    digest: str
    operations: tuple[Operation, ...]
    skipped: tuple[Skipped, ...] = field(default=())
