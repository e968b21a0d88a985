"""Calls in recorded conversations: messages of OpenAI's and Anthropic's APIs, LangChain's, sessions of Claude Code, and ATIF.

Most of them have no times. A call then begins at its number in the conversation and has no duration.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from costgym.experiments.play.call_logs.dialects import Draft, moment
from costgym.experiments.play.call_logs.records import Record, at, first
from costgym.experiments.play.call_logs.statuses import observed

_LISTS = ("messages", "traj", "conversation", "steps")
_ROLES = {"human": "user", "ai": "assistant", "agent": "assistant", "model": "assistant", "function": "tool"}
NOT_ANSWERED = "calls without an answer"
ASKING = (
    "input", "question", "query", "prompt", "task", "user_input", "messages", "contents", "content", "text", "parts", "kwargs",
    "input.value", "value",
)  # fmt: skip
"""Names under which programs keep what a user asked."""


def conversation_of(record: Any) -> list[Any] | None:
    """The messages of a record that is a conversation; None for others."""
    if isinstance(record, list) and record and all(map(_is_message, record)):
        return record
    if not isinstance(record, dict):
        return None
    for name in _LISTS:
        messages = record.get(name)
        if isinstance(messages, list) and messages and any(map(_is_message, messages)):
            return messages
    return None


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    return _role(value) in ("user", "assistant", "tool", "system") or kind in ("function_call", "function_call_output")


def _role(message: Mapping[str, Any]) -> str:
    role = message.get("role") or message.get("source") or message.get("type")
    return _ROLES.get(role, role) if isinstance(role, str) else ""


def grouped(records: Sequence[Record]) -> list[Record]:
    """The records, where those that are messages of one session become one conversation."""
    result: list[Record] = []
    sessions: dict[str, dict[str, Any]] = {}
    for record in records:
        value = record.value
        message = at(value, "message") if isinstance(value, dict) else None
        if isinstance(message, dict) and "role" in message and "timestamp" in value:
            session = str(value.get("sessionId") or "")
            message = {**message, "timestamp": value["timestamp"]}
        elif isinstance(value, dict) and "role" in value and _is_message(value):
            session, message = "", value
        else:
            result.append(record)
            continue
        if session not in sessions:
            sessions[session] = {"messages": [], "session_id": session or None}
            result.append(Record(record.location, sessions[session]))
        sessions[session]["messages"].append(message)
    return result


def read_conversation(record: Any, messages: Sequence[Any], location: str) -> tuple[list[Draft], str, str, int]:
    """The calls of a conversation, what its user asked first and was answered last, and how many calls have no answer."""
    episode = first(record, ("session_id", "id", "conversation_id", "thread_id", "trajectory_id", "task_id")) or location
    drafts: list[Draft] = []
    waiting: dict[str, tuple[dict[str, Any], Mapping[str, Any]]] = {}
    asked = answered = ""
    for message in messages:
        if not isinstance(message, dict):
            continue
        if not asked and _role(message) == "user":
            asked = text_of(message.get("content", message.get("message")))
        if _role(message) == "assistant" and (text := text_of(message.get("content", message.get("message")))):
            answered = text
        for identity, call in _calls(message):
            waiting[identity] = call, message
        for identity, content, failed in _answers(message):
            if identity not in waiting:
                continue
            call, call_message = waiting.pop(identity)
            began, ended = moment(call_message.get("timestamp")), moment(message.get("timestamp"))
            timed = began is not None and ended is not None and message is not call_message
            times = {
                "started": float(len(drafts)) if began is None else began,
                "latency_s": max(0.0, ended - began) if timed and ended and began else None,
            }
            status = observed(content, failed).label
            drafts.append(Draft(location, {**call, **times, "status": status, "result": content, "episode": episode}))
    return drafts, asked, answered, len(waiting)


def _calls(message: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The calls of tools in a message, with their ids."""
    blocks = message.get("content") if isinstance(message.get("content"), list) else []
    for call in [message, *_objects(message.get("tool_calls")), *_objects(blocks)]:
        is_call = call is not message or call.get("type") == "function_call"
        name = first(call, ("function.name", "function_name", "name"))
        arguments = first(call, ("function.arguments", "arguments", "args", "input"))
        identity = first(call, ("call_id", "tool_call_id", "id"))
        if is_call and isinstance(name, str) and identity is not None and call.get("type") not in ("text", "tool_result"):
            yield str(identity), {"tool": name, "arguments": arguments}


def _answers(message: Mapping[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """The answers of tools in a message: the call's id, the content, and whether the message says that it failed."""
    if message.get("type") == "function_call_output":
        yield str(message.get("call_id")), message.get("output"), False
    elif _role(message) == "tool":
        failed = message.get("status") == "error" or message.get("error") is True or message.get("is_error") is True
        yield str(first(message, ("tool_call_id", "id"))), message.get("content"), failed
    for block in _objects(message.get("content")):
        if block.get("type") == "tool_result":
            yield str(block.get("tool_use_id")), block.get("content"), block.get("is_error") is True
    for result in _objects(at(message, "observation.results")):
        yield str(result.get("source_call_id")), result.get("content"), at(result, "extra.is_error") is True


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(value: Any, depth: int = 0) -> str:
    """What a user wrote, in what a program keeps of it: a text, messages, or an object that holds either; "" for none."""
    if depth > 8:
        return ""
    if isinstance(value, str):
        if value[:1] in ("{", "["):
            try:
                return text_of(json.loads(value), depth + 1)
            except (ValueError, RecursionError):
                return value.strip()
        return value.strip()
    if isinstance(value, list):
        users = [item for item in value if isinstance(item, dict) and _role(item) == "user"]
        texts = (text_of(item, depth + 1) for item in (users or [each for each in value if not _is_message(each)]))
        return next((text for text in texts if text), "")
    if isinstance(value, dict):
        texts = (text_of(at(value, name), depth + 1) for name in ASKING)
        return next((text for text in texts if text), "")
    return ""
