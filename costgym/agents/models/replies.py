"""Read a reply out of a chat completion, whatever stands in it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from costgym.agents.models.base import (
    ESTIMATED,
    FILTERED,
    MALFORMED,
    REFUSED,
    TRUNCATED,
    UNKNOWN_FUNCTIONS,
    UNREAD,
    Function,
    FunctionCall,
    Message,
    Reply,
    reply,
)
from costgym.agents.models.call_forms import Read, looks_like_a_call, read_arguments, read_calls, resolve_name
from costgym.agents.models.usage import read_server_usage
from costgym.simulators.bounds import unreadable

_REASONING = ("reasoning_content", "reasoning")
_FINISHED: Mapping[str, str] = {
    **dict.fromkeys(("content_filter", "safety", "recitation", "prohibited_content", "blocklist", "sensitive"), FILTERED),
    "refusal": REFUSED,
    **dict.fromkeys(("length", "max_tokens", "model_length", "model_context_window_exceeded"), TRUNCATED),
    "malformed_function_call": MALFORMED,
}
"""Outcomes by the `finish_reason` of OpenAI and other providers; all others are those of a whole reply."""
_OF_A_CALL = ("id", "type", "function", "index")
_READ = frozenset({"role", "content", "tool_calls", "function_call", "refusal", "annotations", "audio"})
"""Fields of a message that are read here; what else a provider adds goes back to it."""


def first_choice(choices: Any) -> Mapping[str, Any]:
    """The choice of index 0, wherever it stands."""
    known = [choice for choice in choices if isinstance(choice, Mapping)] if isinstance(choices, list) else []
    return next((choice for choice in known if choice.get("index", 0) == 0), known[0] if known else {})


def read_reply(
    document: Mapping[str, Any],
    messages: Sequence[Message],
    functions: Sequence[Function],
    form: str = "auto",
    notes: tuple[str, ...] = (),
) -> Reply:
    """Return a reply out of a server's answer, whatever stands in it; usage is counted where the server reports none."""
    choice = first_choice(document.get("choices"))
    message = choice.get("message")
    fields: Mapping[str, Any] = message if isinstance(message, Mapping) else {}
    wire = fields.get("tool_calls")
    calls = [_read_call(entry, functions) for entry in wire if isinstance(entry, dict)] if isinstance(wire, list) else []
    calls = _with_ids_apart(calls)
    legacy = fields.get("function_call")
    if not calls and isinstance(legacy, dict):
        calls = [_read_call({"function": legacy}, functions)]
    content = _content(fields.get("content"))
    read = Read(content, tuple(calls), "native")
    if not calls:
        read, unread = _read_text(content, fields, functions, form)
        notes += unread
    outcome = _outcome(choice, fields, read)
    if outcome in (FILTERED, REFUSED):  # what is left of it is not what the model would have said
        read = Read("")
    offered = {function.name for function in functions}
    notes += (UNKNOWN_FUNCTIONS,) * sum(bool(call.name) and call.name not in offered for call in read.calls)
    counted = reply(read.content, read.calls, messages, functions)
    extra: dict[str, Any] = {name: value for name, value in fields.items() if name not in _READ and value is not None}
    parts = fields.get("content")
    if isinstance(parts, list) and read.content == content and not all(_is_plain(part) for part in parts):
        extra["content"] = parts  # of which thoughts may be some
    usage = read_server_usage(document)
    if usage is None:
        usage, notes = counted.usage, (*notes, ESTIMATED)
    return Reply(replace(counted.message, extra=extra or None), usage, outcome, read.form if read.calls else "", notes)


def _with_ids_apart(calls: list[FunctionCall]) -> list[FunctionCall]:
    """Calls of one reply, none of which has the id of another: their results could not be told apart."""
    seen: set[str] = set()
    apart = []
    for number, call in enumerate(calls):
        apart.append(call._replace(id=f"{call.id}_{number}") if call.id and call.id in seen else call)
        seen.add(call.id)
    return apart


def _read_text(
    content: str, fields: Mapping[str, Any], functions: Sequence[Function], form: str
) -> tuple[Read, tuple[str, ...]]:
    """The text and calls of a reply without calls in the API's field, as the setting reads them, and the form of a call that is
    there and is not read."""
    if form == "auto" and not functions:  # a plan or a vote may look like calls
        return Read(content), ()
    full = read_calls(content, True, functions, known_only=form == "auto")
    if not full.calls and not full.content:
        # servers that cut thoughts off may take a call that the model did not close its thoughts before for a part of them
        thoughts = next((text for name in _REASONING if isinstance(text := fields.get(name), str) and text), "")
        inner = read_calls(thoughts, False, functions)
        full = inner._replace(content="") if inner.calls and inner.form not in ("json", "pythonic") else full
    full = full._replace(calls=tuple(call._replace(name=resolve_name(call.name, functions)) for call in full.calls))
    if form == "auto" or (full.calls and (full.form == form or (full.form != "json" and form in ("json", "text")))):
        if full.calls:
            return full, ()
        unread = looks_like_a_call(content) or any(looks_like_a_call(str(fields.get(name) or "")) for name in _REASONING)
        return full, (UNREAD["unknown"],) if unread else ()
    return Read(content), (UNREAD[full.form],) if full.calls else ()


def _is_plain(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "text"


def _outcome(choice: Mapping[str, Any], message: Mapping[str, Any], read: Read) -> str:
    """One of `OUTCOMES` where the reply was filtered, refused, cut off, or cannot be read."""
    outcome = _FINISHED.get(str(choice.get("finish_reason")).lower(), "")
    if not outcome and isinstance(message.get("refusal"), str) and message["refusal"].strip():
        return REFUSED
    wire = message.get("tool_calls")
    stray = wire and not (isinstance(wire, list) and all(isinstance(entry, dict) for entry in wire))
    broken = any(not call.name or (arguments := call.read()) is None or unreadable(arguments) for call in read.calls)
    if not outcome and (stray or broken or not (read.calls or read.content.strip())):
        return MALFORMED
    return outcome


def _read_call(entry: dict[str, Any], functions: Sequence[Function]) -> FunctionCall:
    function, number = entry.get("function"), str(entry.get("id") or "")
    if not isinstance(function, dict):
        return FunctionCall("", "{}", number)
    extra = {name: value for name, value in entry.items() if name not in _OF_A_CALL and value is not None}
    arguments = function.get("arguments", "{}")
    # arguments that are JSON stay as they were written; others are read as far as they can be
    if isinstance(arguments, str) and FunctionCall("", arguments).read() is None:
        arguments = read_arguments(arguments)
    return FunctionCall(resolve_name(str(function.get("name") or ""), functions), arguments, number, extra or None)


def _content(value: Any) -> str:
    """Text, or the texts among several parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(part["text"] for part in value if isinstance(part, dict) and isinstance(part.get("text"), str))
    return ""
