"""Put the chunks of a streamed chat completion together."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

MAX_CALLS = 256  # of a stream; more are left out
_PIECES = ("content", "reasoning_content", "reasoning", "refusal")  # texts that come in pieces


def is_stream(content_type: str, body: bytes) -> bool:
    """Return whether an answer is a stream of events, asked for or not."""
    return "text/event-stream" in content_type.lower() or body.lstrip()[:6] in (b"data: ", b"event:")


def events(body: bytes) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a stream's events; what is none is left out."""
    for line in body.decode("utf-8", "replace").splitlines():
        if line.startswith("data:"):
            try:
                event = json.loads(line.removeprefix("data:").strip())
            except (ValueError, RecursionError):
                continue  # a comment, or the closing [DONE]
            if isinstance(event, dict):
                yield event


def assemble(body: bytes) -> dict[str, Any]:
    """Return the chat completion that a stream of chunks spells out; an error among them is the answer's error.

    >>> chunks = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in ("Hel", "lo")]
    >>> assemble("".join(f"data: {json.dumps(chunk)}\\n\\n" for chunk in chunks).encode())["choices"][0]["message"]["content"]
    'Hello'
    """
    whole: dict[str, Any] = {}
    message: dict[str, Any] = {"role": "assistant", "content": None}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": None}
    calls: dict[Any, dict[str, Any]] = {}
    for event in events(body):
        whole |= {
            name: value for name, value in event.items() if name in ("id", "model", "usage", "error", "timings") and value
        }
        choices = event.get("choices")
        for part in choices if isinstance(choices, list) else []:
            if not isinstance(part, Mapping) or part.get("index", 0) != 0:
                continue
            whole.setdefault("choices", [choice])
            choice |= {name: part[name] for name in ("finish_reason", "error") if part.get(name)}
            delta = part.get("delta") or part.get("message")
            if isinstance(delta, Mapping):
                _add(message, calls, delta)
    if calls:
        message["tool_calls"] = list(calls.values())
    return whole


def _add(message: dict[str, Any], calls: dict[Any, dict[str, Any]], delta: Mapping[str, Any]) -> None:
    """Add the piece of a message."""
    for name, value in delta.items():
        if name == "tool_calls":
            for number, call in enumerate(value if isinstance(value, list) else []):
                if isinstance(call, Mapping):
                    _add_call(calls, call, number)
        elif name in _PIECES and isinstance(value, str):
            message[name] = (message.get(name) or "") + value
        elif isinstance(value, list) and isinstance(message.get(name), list):
            message[name] += value
        elif value is not None and name != "role":
            message[name] = value


def _add_call(calls: dict[Any, dict[str, Any]], piece: Mapping[str, Any], number: int) -> None:
    index, name = piece.get("index"), str((piece.get("function") or {}).get("name") or "")
    key = index if isinstance(index, int) else piece.get("id") or number
    before = calls.get(key)
    if index is None and before is not None and name and before["function"]["name"] != name:
        key = f"call {len(calls)}"  # servers that send calls whole, one in each piece, leave their numbers out
    if key not in calls and len(calls) >= MAX_CALLS:
        return
    call = calls.setdefault(key, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
    call |= {name: value for name, value in piece.items() if name not in ("index", "function") and value}
    function = piece.get("function")
    if isinstance(function, Mapping):
        if call["function"]["name"] != name:  # some servers say it again in each piece
            call["function"]["name"] += name
        arguments = function.get("arguments")
        if isinstance(arguments, Mapping):  # some servers send an object whole
            call["function"]["arguments"] = arguments
        elif isinstance(arguments, str) and isinstance(call["function"]["arguments"], str):
            call["function"]["arguments"] += arguments
