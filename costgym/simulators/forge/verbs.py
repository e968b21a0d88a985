"""What an operation does, by what its document says outright, its HTTP method, and the verb of its name."""

import re

from costgym.simulators.forge.readers.operations import PLAIN, Operation
from costgym.simulators.forge.words import lexicon, listed, split

_READ = (lexicon("reading") - {"a", "an", "the", "all", "provide", "provides", "providing"}) | {
    "count", "is", "has", "compare", "calculate", "compute", "convert", "estimate", "track", "preview", "scan", "select",
}  # fmt: skip
_ENDS_READING = frozenset(("get", "list", "search", "query", "lookup", "find", "fetch", "retrieve", "read"))
CREATE, CHANGE, REMOVE, ACT = "create", "change", "remove", "act"
_VERBS = {CREATE: listed("creates"), CHANGE: listed("changes"), REMOVE: listed("removes"), ACT: listed("acts")}
"""Verbs by what they do: make a new thing, change what a thing has, take it away, or do something with it."""
KINDS = {verb: kind for kind, verbs in _VERBS.items() for verb in verbs}
_METHODS = {"put": CHANGE, "patch": CHANGE, "delete": REMOVE, "post": CREATE}
_FORMS = re.compile(r"(?:ed|es|s|d)$")


def _verb(word: str) -> str:
    """The verb that a word is a form of, such as "deletes"; "" where it is none that changes something."""
    return next((form for form in (word, _FORMS.sub("", word), _FORMS.sub("e", word)) if form in KINDS), "")


def _words(operation: Operation) -> list[str]:
    return split(re.split(r"[./:#]", operation.words.rstrip("/"))[-1])


def writes(operation: Operation, kind: str) -> bool:
    """Return whether an operation of a document of this kind changes something: by its hints, its method and its name, in this
    order. A tool of MCP writes unless it says or its name shows that it reads."""
    if operation.reads is not None:
        return not operation.reads
    words = _words(operation)
    first, last = (words[0], words[-1]) if words else ("", "")
    if operation.method in ("put", "patch", "delete"):
        return True
    if operation.method == "post":
        path = split(operation.path.rstrip("/").rsplit("/", 1)[-1]) if "}" not in operation.path[-2:] else []
        if path and path[-1] in _ENDS_READING:
            return False
        return not (first in _READ or (last in _ENDS_READING and not _verb(first)))
    if first in _READ:
        return False
    if operation.method in ("get", "head"):
        return bool(_verb(first)) or (len(words) > 1 and KINDS.get(last) in (CREATE, CHANGE, REMOVE) and "_" in operation.words)
    ends_in_change = (
        len(words) > 1 and KINDS.get(last) in (CREATE, CHANGE, REMOVE) and last not in lexicon("verbs that are nouns")
    )
    if kind in PLAIN and ends_in_change:
        return True
    return operation.writes or bool(_verb(first)) or (kind == "mcp" and last not in _ENDS_READING)


def deed(operation: Operation) -> tuple[str, str]:
    """The verb and the kind of an operation that writes; two empty texts where neither its name nor its method says what it
    does. A verb at the end of a path, as in `/orders/{id}/cancel`, comes first."""
    path = operation.path.split("?")[0].rstrip("/").split("/") if operation.path else []
    tail = split(path[-1].split(":")[-1]) if path and not path[-1].endswith("}") else []
    if len(tail) == 1 and (verb := _verb(tail[0])) and (any("{" in part for part in path[:-1]) or len(path) > 3):
        return verb, KINDS[verb]
    words = _words(operation)
    for word in words[:1] + words[-1:]:
        if verb := _verb(word):
            return verb, KINDS[verb]
    kind = _METHODS.get(operation.method, "")
    return {CREATE: "create", CHANGE: "change", REMOVE: "delete"}.get(kind, ""), kind
