"""Judge from its text alone whether a function's result helped."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from ...simulators.tasks import normalise


class Usefulness(Protocol):
    """Judges results; a trained classifier may stand in for the rules."""

    def helpful(self, query: str, name: str, arguments: Mapping[str, Any], text: str) -> bool:
        """Return whether a call's result helps with a query."""
        ...


class Observed(NamedTuple):
    """The parts of a call that a trained judge reads."""

    text: str  # the result
    query: str  # what the user asked
    arguments: Mapping[str, Any]  # arguments of the call
    document: str = ""  # name and description of the tool, or "" where it is not known


class RuleBased:
    """An error, an empty answer or an answer about something else does not help; anything else does.

    An answer is about something else if it repeats an argument's name with another value.
    """

    def helpful(self, query: str, name: str, arguments: Mapping[str, Any], text: str) -> bool:
        told = _read(text)
        if not told:
            return told is not None
        asked = {key_of(name): normalise(value) for name, value in arguments.items()}
        return all(value == asked[key] for key, value in told if key in asked)


@lru_cache(maxsize=4096)
def _read(text: str) -> tuple[tuple[str, str], ...] | None:
    """Return the names and plain values in a result, as they are compared; None for a result that tells nothing."""
    stripped = text.strip()
    if not stripped:
        return None
    try:
        document = json.loads(stripped)
    except (ValueError, RecursionError):
        # cut off, or plain words
        return None if stripped.startswith('{"error"') else ()
    if document in ({}, [], "", None):
        return None
    if isinstance(document, dict) and document.get("error"):
        return None
    return tuple([(key, normalise(value)) for key, value in fields_of(document)])


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(maxsize=4096)
def key_of(name: str) -> str:
    """Return a name in one spelling: invoiceId and invoice-id are invoice_id."""
    return _CAMEL.sub("_", name).casefold().replace("-", "_")


def fields_of(document: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the names and plain values in a JSON document, to a sensible depth."""
    if depth > 8:
        return
    if isinstance(document, dict):
        for name, value in document.items():
            if isinstance(value, dict | list):
                yield from fields_of(value, depth + 1)
            else:
                yield key_of(str(name)), value
    elif isinstance(document, list):
        for value in document[:20]:
            yield from fields_of(value, depth + 1)
