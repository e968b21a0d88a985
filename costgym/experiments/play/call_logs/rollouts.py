"""Rollouts of Codex: a line for each event, {"timestamp", "type", "payload"}; items of the model's API are its messages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from costgym.experiments.play.call_logs.records import Record, at, first

_TYPES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_API_USER = "user of the API"
_ASKED = ("user_message", "UserMessage")


def is_rollout(value: Any) -> bool:
    """Return whether a record is a line of a rollout."""
    kind = value.get("type") if isinstance(value, dict) else None
    return isinstance(kind, str) and kind in _TYPES and isinstance(value.get("payload"), dict)


def rollouts(records: Sequence[Record]) -> Iterator[Record]:
    """The records, where the lines of a rollout become one conversation."""
    session: dict[str, Any] | None = None
    sessions = []
    for record in records:
        if not is_rollout(record.value):
            yield record
            continue
        if session is None or record.value["type"] == "session_meta":
            session = {"messages": [], "session_id": at(record.value, "payload.id")}
            sessions.append(session)
            yield Record(record.location, session)
        session["messages"] += _messages(record.value)
    for session in sessions:
        if not any(message.get("role") == "user" for message in session["messages"]):
            for message in session["messages"]:
                message["role"] = {_API_USER: "user"}.get(str(message.get("role")), message.get("role"))


def _messages(line: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The message that a line holds: an item of the API, or what the user wrote. Messages of the API in the user's name are
    the program's too, so they only count where nothing else says what was asked."""
    payload, time = line["payload"], {"timestamp": line.get("timestamp")}
    if line["type"] == "response_item":
        role = payload.get("role")
        yield {**payload, **time, **({"role": _API_USER} if role == "user" else {})}
    elif line["type"] == "event_msg" and first(payload, ("item.type", "type")) in _ASKED:
        yield {"role": "user", "content": first(payload, ("message", "item.content")), **time}


def requests(records: Iterable[Record]) -> Iterator[Record]:
    """The records, where a rollout's counts of tokens become requests with a session, a model, a time and usage."""
    session = model = last = None
    for record in records:
        value = record.value
        if not is_rollout(value):
            yield record
            continue
        session = at(value, "payload.id") if value["type"] == "session_meta" else session
        model = first(value, ("payload.model", "payload.info.model")) or model
        total = at(value, "payload.info.total_token_usage")
        usage = at(value, "payload.info.last_token_usage")
        if usage is not None and (total is None or total != last):  # a count may be told twice
            yield record._replace(
                value={"session_id": session, "model": model, "timestamp": value.get("timestamp"), "usage": usage}
            )
        last = total or last
