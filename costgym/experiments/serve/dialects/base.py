"""What the dialects share: a request that was read, and texts out of the parts of a message."""

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from costgym.agents.models.base import Function, FunctionCall, Message, Reply, to_json

MAX_MESSAGES, MAX_FUNCTIONS = 5_000, 1_000


class BadRequest(ValueError):
    """A request that the dialect does not allow; the message says what was expected."""


class Ask(NamedTuple):
    """A request for a reply."""

    messages: list[Message]
    functions: list[Function]
    stream: bool  # the reply is wanted as a stream of events
    options: Mapping[str, Any] = MappingProxyType(
        {}
    )  # further fields, as chat completions name them, for models behind a server


class Dialect(Protocol):
    """One interface of language models.

    Attributes:
        path: Where it is served, below the address of an episode.
    """

    path: str

    def read(self, body: Mapping[str, Any]) -> Ask:
        """Read a request; raises BadRequest."""
        ...

    def write(self, reply: Reply, model: str, number: int) -> dict[str, Any]:
        """Write a reply, the `number`-th of its episode, whose calls all have ids."""
        ...

    def stream(self, answer: Mapping[str, Any]) -> Iterator[str]:
        """Write an answer as a stream of events."""
        ...

    def error(self, message: str, code: str) -> dict[str, Any]:
        """Write an error."""
        ...


def expect_list(body: Mapping[str, Any], name: str, most: int) -> list[Mapping[str, Any]]:
    """Return a list of objects in a request; empty where it is absent or null."""
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value) or len(value) > most:
        raise BadRequest(f"{name}: expected a list of at most {most:,} objects, got {value!s:.60}")
    return value


def text_of(content: Any, where: str) -> str:
    """Return the text of a message's content, which is a text or a list of parts that hold one each."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif not isinstance(part, dict) or part.get("type") not in ("thinking", "redacted_thinking", "refusal"):
            kind = part.get("type") if isinstance(part, dict) else type(part).__name__
            raise BadRequest(f"{where}: expected text, got a part of the type {kind!s:.40}; only texts can be passed on")
    return "".join(texts)


def read_function(document: Mapping[str, Any], schema: str) -> Function:
    """Return a function out of its document, whose schema stands under a name of the dialect's."""
    name, parameters = document.get("name"), document.get(schema)
    if not isinstance(name, str) or not name:
        raise BadRequest(f"tools: expected the name of a function, got {name!r:.60}")
    return Function(name, str(document.get("description") or ""), parameters if isinstance(parameters, dict) else {})


def arguments_text(call: FunctionCall) -> str:
    """Return the arguments of a call as the JSON text that OpenAI's interfaces hold."""
    return call.arguments if isinstance(call.arguments, str) else to_json(call.arguments)


def chosen(**options: Any) -> dict[str, Any]:
    """Options that a request states."""
    return {name: value for name, value in options.items() if value is not None}


def event(data: Mapping[str, Any], name: str = "") -> str:
    """Return one event of a stream."""
    return f"{f'event: {name}{chr(10)}' if name else ''}data: {json.dumps(data)}\n\n"
