"""Operations of an API as every reader gives them, whatever the format of the document."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_OPERATIONS = 5_000  # that are read from one document; the rest is counted as left out
LONGEST = 2_000  # characters of a description that are read
PLAIN = ("mcp", "functions", "python")
"""Kinds of documents that hardly ever say of which form a text is: an argument may be any short name there."""
RESULT = ("result",)
"""Path of the one value of a function whose result is plain or is not described; MCP servers wrap plain results so, too."""


@dataclass(frozen=True, slots=True)
class Field:
    """A value in a response."""

    path: tuple[str, ...]  # names that lead to it; "[]" for the items of a list
    schema: Mapping[str, Any]  # its type, format, enumeration, example and description

    @property
    def name(self) -> str:
        return next((part for part in reversed(self.path) if part != "[]"), "")

    @property
    def listed(self) -> int:
        """The number of lists around it."""
        return self.path.count("[]")


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of an operation."""

    name: str
    schema: Mapping[str, Any]  # JSON schema, references resolved
    required: bool = False
    location: str = "query"  # "path", "query", "header" or "body"
    description: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that an API can do."""

    name: str  # its id in the document
    writes: bool  # it changes something
    path: str = ""  # URL path, where it has one
    summary: str = ""
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    fields: tuple[Field, ...] = ()  # of the response; none where the document does not describe it
    statuses: tuple[int, ...] = ()  # HTTP statuses of the errors that the document declares
    label: str = ""  # its name without a prefix that all names of the document share, where there is one
    method: str = ""  # HTTP method in small letters, where it has one
    reads: bool | None = None  # what the document says outright: MCP's `readOnlyHint`; None where it does not say
    destructive: bool | None = None  # MCP's `destructiveHint`
    idempotent: bool | None = None  # MCP's `idempotentHint`: a repeat with the same arguments changes nothing

    @property
    def words(self) -> str:
        """What says in words what it does: its name, or as much of it as is its own."""
        return self.label or self.name


@dataclass(frozen=True, slots=True)
class Skipped:
    """A document, or a part of one, that could not be read: where, and why."""

    location: str
    reason: str


@dataclass(frozen=True, slots=True)
class Api:
    """A document that was read."""

    name: str  # its path within its source
    kind: str  # "openapi", "discovery", "botocore", "mcp", "functions" or "python"
    title: str
    provider: str  # who offers it, such as a domain
    category: str  # field of business
    digest: str  # SHA-256 of the document, 16 hexadecimal digits
    operations: tuple[Operation, ...]
    skipped: tuple[Skipped, ...] = ()  # parts that could not be read
