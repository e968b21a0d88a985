"""Anthropic's messages."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from costgym.agents.models.base import ASSISTANT, SYSTEM, TOOL, TRUNCATED, USER, FunctionCall, Message, Reply
from costgym.experiments.serve.dialects.base import (
    MAX_FUNCTIONS,
    MAX_MESSAGES,
    Ask,
    BadRequest,
    chosen,
    event,
    expect_list,
    read_function,
    text_of,
)


class Messages:
    """See `Dialect`."""

    path = "v1/messages"

    def read(self, body: Mapping[str, Any]) -> Ask:
        messages = []
        if system := body.get("system"):
            messages.append(Message(SYSTEM, text_of(system, "system")))
        names: dict[str, str] = {}
        for index, entry in enumerate(expect_list(body, "messages", MAX_MESSAGES)):
            where = f"messages.{index}"
            content = entry.get("content")
            blocks = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
            if entry.get("role") not in ("user", "assistant") or not all(isinstance(block, dict) for block in blocks):
                raise BadRequest(f"{where}: expected a message of the user or the assistant, with blocks of content")
            kind = "tool_use" if entry["role"] == "assistant" else "tool_result"
            text = text_of([block for block in blocks if block.get("type") != kind], where)
            special = [block for block in blocks if block.get("type") == kind]
            if entry["role"] == "assistant":
                calls = tuple(
                    FunctionCall(str(block.get("name") or ""), block.get("input", {}), str(block.get("id") or ""))
                    for block in special
                )
                names |= {call.id: call.name for call in calls}
                messages.append(Message(ASSISTANT, text, calls))
                continue
            for block in special:
                number = str(block.get("tool_use_id") or "")
                messages.append(Message(TOOL, text_of(block.get("content"), where), (), names.get(number, ""), number))
            if text or not special:
                messages.append(Message(USER, text))
        if not messages:
            raise BadRequest("messages: expected at least one message")
        tools = [tool for tool in expect_list(body, "tools", MAX_FUNCTIONS) if "input_schema" in tool]
        return Ask(
            messages, [read_function(tool, "input_schema") for tool in tools], body.get("stream") is True, _options(body)
        )

    def write(self, reply: Reply, model: str, number: int) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if reply.message.content:
            content.append({"type": "text", "text": reply.message.content})
        for call in reply.message.calls:
            content.append({"type": "tool_use", "id": call.id, "name": call.name, "input": call.read() or {}})
        calls, cut, usage = reply.message.calls, reply.outcome == TRUNCATED, reply.usage
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": content,
            "stop_reason": "tool_use" if calls else "max_tokens" if cut else "end_turn",
            "stop_sequence": None,
            "usage": {
                # Anthropic's input leaves out what was read from the cache and written to it
                "input_tokens": usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens,
                "cache_read_input_tokens": usage.cached_tokens,
                "cache_creation_input_tokens": usage.cache_write_tokens,
                "output_tokens": usage.output_tokens,
            },
        }

    def stream(self, answer: Mapping[str, Any]) -> Iterator[str]:
        begun = {**answer, "content": [], "stop_reason": None, "usage": {**answer["usage"], "output_tokens": 0}}
        yield event({"type": "message_start", "message": begun}, "message_start")
        for index, block in enumerate(answer["content"]):
            if block["type"] == "text":
                empty: dict[str, Any] = {"type": "text", "text": ""}
                delta = {"type": "text_delta", "text": block["text"]}
            else:
                empty = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield event({"type": "content_block_start", "index": index, "content_block": empty}, "content_block_start")
            yield event({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")
            yield event({"type": "content_block_stop", "index": index}, "content_block_stop")
        ended = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        yield event({"type": "message_delta", "delta": ended, "usage": answer["usage"]}, "message_delta")
        yield event({"type": "message_stop"}, "message_stop")

    def error(self, message: str, code: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": code, "message": message}}


def _options(body: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a request under the names that chat completions have for them."""
    wanted = body.get("tool_choice")
    choice = wanted if isinstance(wanted, dict) else {}
    named = {"type": "function", "function": {"name": choice.get("name")}} if choice.get("type") == "tool" else None
    return chosen(
        tool_choice=named or {"any": "required", "auto": "auto", "none": "none"}.get(str(choice.get("type"))),
        temperature=body.get("temperature"),
        top_p=body.get("top_p"),
        stop=body.get("stop_sequences"),
        max_tokens=body.get("max_tokens"),
    )
