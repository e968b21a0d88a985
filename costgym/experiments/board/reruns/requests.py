"""Read a request to the judge's model from an agent's process, within bounds; tell a broken server from a broken request."""

import json
from functools import lru_cache
from typing import Any, NamedTuple

from costgym.agents.models.base import ASSISTANT, SYSTEM, TOOL, USER, Function, FunctionCall, Message
from costgym.simulators.errors import ConfigError, InfrastructureError

ROLES = (SYSTEM, USER, ASSISTANT, TOOL)
MAX_MESSAGES, MAX_FUNCTIONS = 2_000, 2_000
MAX_CHARACTERS = 2_000_000  # of all texts and schemas of a request: far beyond any context
MAX_SCHEMA_DEPTH = 24
MAX_NAME = 200  # characters of names, ids and of a purpose
CANNED = (Message(USER, "Answer with the word ready."),)


class Request(NamedTuple):
    """What a model is asked for."""

    messages: list[Message]
    functions: list[Function]
    purpose: str


def read_request(arguments: Any) -> Request:
    """Read the arguments of a request; raises ValueError, in words, for one that no model is asked."""
    if not isinstance(arguments, list) or len(arguments) != 3:
        raise ValueError("expected messages, functions and a purpose")
    messages, functions, purpose = arguments
    if not isinstance(messages, list) or not 0 < len(messages) <= MAX_MESSAGES:
        raise ValueError(f"expected 1 to {MAX_MESSAGES:,} messages")
    if not isinstance(functions, list) or len(functions) > MAX_FUNCTIONS:
        raise ValueError(f"expected at most {MAX_FUNCTIONS:,} functions")
    length = len(json.dumps([messages, functions]))
    if length > MAX_CHARACTERS:
        raise ValueError(f"expected at most {MAX_CHARACTERS:,} characters, got {length:,}")
    read = [_message(message) for message in messages]
    return Request(read, [_function(document) for document in functions], _name(purpose, "purpose"))


def _message(document: Any) -> Message:
    fields = _object(document, "message", ("role", "content", "calls", "name", "call_id"))
    if fields["role"] not in ROLES:
        raise ValueError(f"expected a message of one of the roles {', '.join(ROLES)}, got {fields['role']!r:.80}")
    if not isinstance(fields["content"], str) or not isinstance(fields["calls"], list):
        raise ValueError("expected a message with a text and a list of calls")
    calls = []
    for call in fields["calls"]:
        written = _object(call, "call", ("name", "arguments", "id"))
        # a model writes names and arguments as it likes, and gets them back
        calls.append(FunctionCall(str(written["name"]), written["arguments"], str(written["id"])))
    return Message(fields["role"], fields["content"], tuple(calls), str(fields["name"]), str(fields["call_id"]))


def _function(document: Any) -> Function:
    fields = _object(document, "function", ("name", "description", "parameters"))
    _name(fields["name"], "name")
    if not isinstance(fields["description"], str) or not isinstance(fields["parameters"], dict):
        raise ValueError("expected a function with a description and a schema of its parameters")
    if _depth(fields["parameters"]) > MAX_SCHEMA_DEPTH:
        raise ValueError(f"expected a schema of at most {MAX_SCHEMA_DEPTH} levels")
    return _counted(json.dumps(fields, sort_keys=True))


@lru_cache(maxsize=4096)
def _counted(text: str) -> Function:
    """A function whose tokens are counted once for many requests."""
    return Function(**json.loads(text))


def _object(value: Any, what: str, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict) or not value.keys() >= set(names):
        raise ValueError(f"expected a {what} with {', '.join(names)}")
    return {name: value[name] for name in names}


def _name(value: Any, what: str) -> str:
    if not isinstance(value, str) or len(value) > MAX_NAME:
        raise ValueError(f"expected a {what} of at most {MAX_NAME} characters")
    return value


def _depth(value: Any) -> int:
    """How many levels of objects and lists are nested; the pipe's reader refuses what Python cannot recurse through."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, parts), default=0) if isinstance(value, dict | list) else 0


def answers(model: Any) -> bool:
    """Whether a model answers a request of the judge's own: then what another request broke on was that request."""
    try:
        model.complete(CANNED, ())
    except (InfrastructureError, ConfigError):
        return False
    return True
