"""Calls in recorded conversations: messages of OpenAI's and Anthropic's APIs, LangChain's, sessions of Claude Code and Codex,
and ATIF.

Most of them have no times. A call then begins at its number in the conversation and has no duration.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from costgym.experiments.play.call_logs.dialects import Draft, dialect_of, moment
from costgym.experiments.play.call_logs.records import Record, at, first
from costgym.experiments.play.call_logs.rollouts import rollouts
from costgym.experiments.play.call_logs.statuses import observed

_LISTS = ("messages", "traj", "conversation", "steps")
_ROLES = {"human": "user", "ai": "assistant", "agent": "assistant", "model": "assistant", "function": "tool"}
_CALLS, _OUTPUTS = (("function_call", "custom_tool_call"), ("function_call_output", "custom_tool_call_output"))
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
    return _role(value) in ("user", "assistant", "tool", "system") or value.get("type") in (*_CALLS, *_OUTPUTS)


def _role(message: Mapping[str, Any]) -> str:
    role = message.get("role") or message.get("source") or message.get("type")
    return _ROLES.get(role, role) if isinstance(role, str) else ""


def grouped(records: Sequence[Record]) -> list[Record]:
    """The records, where those that are messages of one session become one conversation. What sessions of coding agents hold
    beside them, such as summaries and snapshots of files, goes with them."""
    result: list[Record] = []
    sessions: dict[str, dict[str, Any]] = {}
    is_claude_code = any(
        isinstance(at(record.value, "sessionId"), str) and at(record.value, "message.role") for record in records
    )
    for record in rollouts(records):
        value = record.value
        message = at(value, "message") if isinstance(value, dict) else None
        if isinstance(message, dict) and "role" in message and "timestamp" in value:
            session = str(value.get("sessionId") or "")
            message = {**message, "timestamp": value["timestamp"]}
            if value.get("isMeta") is True:  # written by the program in the user's place
                message["role"] = "system"
        elif is_claude_code and isinstance(value, dict) and isinstance(value.get("type"), str) and dialect_of(value) is None:
            continue
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
    question = answered = ""
    for message in messages:
        if not isinstance(message, dict):
            continue
        if not question and _role(message) == "user":
            question = text_of(message.get("content", message.get("message")))
        if _role(message) == "assistant" and (text := text_of(message.get("content", message.get("message")))):
            answered = text
        for identity, call in _calls(message):
            waiting[identity] = call, message
        for identity, content, failed in _answers(message):
            if identity not in waiting:
                continue
            call, call_message = waiting.pop(identity)
            content = _plain(content)
            began, ended = moment(call_message.get("timestamp")), moment(message.get("timestamp"))
            timed = began is not None and ended is not None and message is not call_message
            times = {
                "started": float(len(drafts)) if began is None else began,
                "latency_s": max(0.0, ended - began) if timed and ended and began else None,
            }
            status = observed(content, failed).label
            drafts.append(Draft(location, {**call, **times, "status": status, "result": content, "episode": episode}))
    return drafts, question, answered, len(waiting)


def _calls(message: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The calls of tools in a message, with their ids."""
    blocks = message.get("content") if isinstance(message.get("content"), list) else []
    for call in [message, *_objects(message.get("tool_calls")), *_objects(blocks)]:
        is_call = call is not message or call.get("type") in _CALLS
        name = first(call, ("function.name", "function_name", "name"))
        arguments = first(call, ("function.arguments", "arguments", "args", "input"))
        identity = first(call, ("call_id", "tool_call_id", "id"))
        if is_call and isinstance(name, str) and identity is not None and call.get("type") not in ("text", "tool_result"):
            yield str(identity), {"tool": name, "arguments": arguments}


def _answers(message: Mapping[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """The answers of tools in a message: the call's id, the content, and whether the message says that it failed."""
    if message.get("type") in _OUTPUTS:
        output = message.get("output")
        yield str(message.get("call_id")), output, at(output, "metadata.exit_code") not in (None, 0)
    elif _role(message) == "tool":
        failed = message.get("status") == "error" or message.get("error") is True or message.get("is_error") is True
        yield str(first(message, ("tool_call_id", "id"))), message.get("content"), failed
    for block in _objects(message.get("content")):
        if block.get("type") == "tool_result":
            yield str(block.get("tool_use_id")), block.get("content"), block.get("is_error") is True
    for result in _objects(at(message, "observation.results")):
        yield str(result.get("source_call_id")), result.get("content"), at(result, "extra.is_error") is True


def _plain(content: Any) -> Any:
    """The content of an answer, where it is a list of blocks of text their texts."""
    blocks = _objects(content)
    texts = [block.get("text") for block in blocks if block.get("type") in ("text", "input_text", "output_text")]
    whole = isinstance(content, list) and len(content) == len(texts) and all(isinstance(text, str) for text in texts)
    return "\n".join(map(str, texts)) if texts and whole else content


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
        texts = (text_of(item, depth + 1) for item in (users or [part for part in value if not _is_message(part)]))
        return next((text for text in texts if text), "")
    if isinstance(value, dict):
        texts = (text_of(at(value, name), depth + 1) for name in ASKING)
        return next((text for text in texts if text), "")
    return ""
