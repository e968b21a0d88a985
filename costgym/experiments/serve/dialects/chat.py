"""OpenAI's chat completions."""

from collections.abc import Iterator, Mapping
from typing import Any

from costgym.agents.models.base import ASSISTANT, SYSTEM, TOOL, TRUNCATED, USER, FunctionCall, Message, Reply
from costgym.experiments.serve.dialects.base import (
    MAX_FUNCTIONS,
    MAX_MESSAGES,
    Ask,
    BadRequest,
    arguments_text,
    chosen,
    event,
    expect_list,
    read_function,
    text_of,
)

_OPTIONS = (
    "tool_choice", "parallel_tool_calls", "response_format", "temperature", "top_p", "stop", "max_tokens",
    "max_completion_tokens", "reasoning_effort",
)  # fmt: skip
_ROLES = {"system": SYSTEM, "developer": SYSTEM, "user": USER, "assistant": ASSISTANT, "tool": TOOL}


class ChatCompletions:
    """See `Dialect`."""

    path = "v1/chat/completions"

    def read(self, body: Mapping[str, Any]) -> Ask:
        names: dict[str, str] = {}
        messages = []
        for index, entry in enumerate(expect_list(body, "messages", MAX_MESSAGES)):
            role = _ROLES.get(str(entry.get("role")))
            if role is None:
                raise BadRequest(f"messages.{index}.role: expected {', '.join(_ROLES)}, got {entry.get('role')!r:.40}")
            calls = tuple(_read_call(call) for call in expect_list(entry, "tool_calls", MAX_FUNCTIONS))
            names |= {call.id: call.name for call in calls}
            number = str(entry.get("tool_call_id") or "")
            name = names.get(number, str(entry.get("name") or "")) if role == TOOL else ""
            messages.append(Message(role, text_of(entry.get("content"), f"messages.{index}"), calls, name, number))
        if not messages:
            raise BadRequest("messages: expected at least one message")
        tools = expect_list(body, "tools", MAX_FUNCTIONS)
        functions = [read_function(tool["function"], "parameters") for tool in tools if isinstance(tool.get("function"), dict)]
        return Ask(messages, functions, body.get("stream") is True, chosen(**{name: body.get(name) for name in _OPTIONS}))

    def write(self, reply: Reply, model: str, number: int) -> dict[str, Any]:
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments_text(call)}}
            for call in reply.message.calls
        ]
        message: dict[str, Any] = {"role": "assistant", "content": reply.message.content or None}
        if calls:
            message["tool_calls"] = calls
        reason = "tool_calls" if calls else "length" if reply.outcome == TRUNCATED else "stop"
        usage = reply.usage
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
            "usage": {
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.input_tokens + usage.output_tokens,
                "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
                "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            },
        }

    def stream(self, answer: Mapping[str, Any]) -> Iterator[str]:
        head = {name: answer[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
        choice = answer["choices"][0]
        message = dict(choice["message"])
        calls = message.pop("tool_calls", [])
        for number, call in enumerate(calls):
            message.setdefault("tool_calls", []).append({"index": number, **call})
        yield event({**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}], "usage": None})
        yield event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}], "usage": None})
        yield event({**head, "choices": [], "usage": answer["usage"]})
        yield "data: [DONE]\n\n"

    def error(self, message: str, code: str) -> dict[str, Any]:
        return {"error": {"message": message, "type": code, "param": None, "code": code}}


def _read_call(entry: Mapping[str, Any]) -> FunctionCall:
    function = entry.get("function")
    known = function if isinstance(function, dict) else {}
    return FunctionCall(str(known.get("name") or ""), known.get("arguments", "{}"), str(entry.get("id") or ""))
