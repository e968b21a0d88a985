"""OpenAI's responses."""

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

_ROLES = {"system": SYSTEM, "developer": SYSTEM, "user": USER, "assistant": ASSISTANT}
_PASSED_OVER = ("reasoning", "item_reference")


class Responses:
    """See `Dialect`. A request holds its whole conversation; nothing is stored between requests."""

    path = "v1/responses"

    def read(self, body: Mapping[str, Any]) -> Ask:
        if body.get("previous_response_id"):
            raise BadRequest("previous_response_id: responses are not stored here; send the whole conversation as input")
        messages = []
        if instructions := body.get("instructions"):
            messages.append(Message(SYSTEM, text_of(instructions, "instructions")))
        conversation = body.get("input")
        items = (
            [{"role": "user", "content": conversation}]
            if isinstance(conversation, str)
            else expect_list(body, "input", MAX_MESSAGES)
        )
        names: dict[str, str] = {}
        for index, item in enumerate(items):
            self._add(messages, names, item, f"input.{index}")
        if not messages:
            raise BadRequest("input: expected a text or at least one item")
        tools = [tool for tool in expect_list(body, "tools", MAX_FUNCTIONS) if tool.get("type") == "function"]
        return Ask(messages, [read_function(tool, "parameters") for tool in tools], body.get("stream") is True, _options(body))

    @staticmethod
    def _add(messages: list[Message], names: dict[str, str], item: Mapping[str, Any], where: str) -> None:
        """Add an item to a conversation; calls belong to the message of the model that stands before them."""
        kind = item.get("type", "message")
        if kind == "function_call":
            call = FunctionCall(str(item.get("name") or ""), item.get("arguments", "{}"), str(item.get("call_id") or ""))
            names[call.id] = call.name
            before = messages.pop() if messages and messages[-1].role == ASSISTANT else Message(ASSISTANT, "")
            messages.append(Message(ASSISTANT, before.content, (*before.calls, call)))
        elif kind == "function_call_output":
            number = str(item.get("call_id") or "")
            messages.append(Message(TOOL, text_of(item.get("output"), where), (), names.get(number, ""), number))
        elif kind == "message" and (role := _ROLES.get(str(item.get("role")))) is not None:
            messages.append(Message(role, text_of(item.get("content"), where)))
        elif kind not in _PASSED_OVER:
            raise BadRequest(f"{where}: expected a message, a function_call or a function_call_output, got {kind!s:.40}")

    def write(self, reply: Reply, model: str, number: int) -> dict[str, Any]:
        output: list[dict[str, Any]] = []
        if reply.message.content or not reply.message.calls:
            part = {"type": "output_text", "text": reply.message.content, "annotations": []}
            about = {"id": f"msg_{number}", "role": "assistant", "status": "completed"}
            output.append({"type": "message", **about, "content": [part]})
        for call in reply.message.calls:
            about = {"id": f"fc_{call.id}", "call_id": call.id, "name": call.name, "status": "completed"}
            output.append({"type": "function_call", **about, "arguments": arguments_text(call)})
        usage, cut = reply.usage, reply.outcome == TRUNCATED
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 0,
            "model": model,
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "error": None,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": usage.input_tokens,
                "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens},
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
                "total_tokens": usage.input_tokens + usage.output_tokens,
            },
        }

    def stream(self, answer: Mapping[str, Any]) -> Iterator[str]:
        number = -1

        def written(kind: str, **fields: Any) -> str:
            nonlocal number
            number += 1
            return event({"type": kind, "sequence_number": number, **fields}, kind)

        begun = {**answer, "status": "in_progress", "output": [], "usage": None}
        yield written("response.created", response=begun)
        for index, item in enumerate(answer["output"]):
            position = {"output_index": index, "item_id": item["id"]}
            if item["type"] == "message":
                part = item["content"][0]
                of_part = {**position, "content_index": 0}
                empty = {**part, "text": ""}
                yield written(
                    "response.output_item.added", output_index=index, item={**item, "status": "in_progress", "content": []}
                )
                yield written("response.content_part.added", **of_part, part=empty)
                yield written("response.output_text.delta", **of_part, delta=part["text"], logprobs=[])
                yield written("response.output_text.done", **of_part, text=part["text"], logprobs=[])
                yield written("response.content_part.done", **of_part, part=part)
            else:
                begun_item = {**item, "status": "in_progress", "arguments": ""}
                yield written("response.output_item.added", output_index=index, item=begun_item)
                yield written("response.function_call_arguments.delta", **position, delta=item["arguments"])
                yield written(
                    "response.function_call_arguments.done", **position, name=item["name"], arguments=item["arguments"]
                )
            yield written("response.output_item.done", output_index=index, item=item)
        yield written(f"response.{answer['status']}", response=dict(answer))

    def error(self, message: str, code: str) -> dict[str, Any]:
        return {"error": {"message": message, "type": code, "param": None, "code": code}}


def _options(body: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a request under the names that chat completions have for them."""
    choice, text, reasoning = body.get("tool_choice"), body.get("text"), body.get("reasoning")
    if isinstance(choice, dict) and choice.get("type") == "function":
        choice = {"type": "function", "function": {"name": choice.get("name")}}
    form = text.get("format") if isinstance(text, dict) else None
    if isinstance(form, dict) and form.get("type") == "json_schema":
        form = {"type": "json_schema", "json_schema": {name: value for name, value in form.items() if name != "type"}}
    return chosen(
        tool_choice=choice,
        parallel_tool_calls=body.get("parallel_tool_calls"),
        response_format=form,
        temperature=body.get("temperature"),
        top_p=body.get("top_p"),
        max_tokens=body.get("max_output_tokens"),
        reasoning_effort=reasoning.get("effort") if isinstance(reasoning, dict) else None,
    )
