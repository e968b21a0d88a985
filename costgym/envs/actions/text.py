"""Parse text actions. A model's output is data: any text becomes an `Action`, never an exception."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from costgym.envs.actions.plans import read_steps
from costgym.simulators.calls import Prompt, Usage
from costgym.simulators.errors import InvalidPlan
from costgym.simulators.plan import PlanStep
from costgym.simulators.pricing.usage import MAX_MARKS
from costgym.simulators.status import Status

FINISH, WAIT, THINK = "finish", "wait", "think"
SEARCH = "search_tools"  # asks the retriever for more tools, in worlds that have one
RESERVED = (FINISH, WAIT, THINK)
MAX_TOKENS_REPORTED = 10_000_000
MAX_PARTS, MAX_DIGEST = 4096, 64  # parts of a prompt that are reported, and characters of a part's digest
MAX_CALLS = 16
MAX_SECONDS = 86_400.0


_NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})


class ToolCall(NamedTuple):
    """A tool call as the agent requested it. `problem` says why it cannot be read, if it cannot."""

    name: str
    arguments: Mapping[str, Any] = _NO_ARGUMENTS
    status: Status | None = None
    problem: str = ""


class Action(NamedTuple):
    """A parsed text action."""

    kind: str  # "call", "finish", "wait" or "think"
    calls: tuple[ToolCall, ...] = ()  # the tool calls; several run concurrently
    answer: str = ""
    gave_up: bool = False  # whether a `finish` gives up
    seconds: float = 0.0  # length of a `wait`, simulated seconds; 0 waits until the next call ends
    usage: Usage | None = None  # the model's tokens, if the action reports them
    steps: tuple[PlanStep, ...] = ()  # of a plan whose `calls` these are, their ids and what they depend on


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text without a tokenizer: one per four characters, rounded up, the rule of thumb for English."""
    return (len(text) + 3) // 4


def encode_action(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    usage: Usage | None = None,
    refuse: Status | None = None,
    reason: str = "",
) -> str:
    """Write an action as JSON text."""
    action: dict[str, Any] = {"name": name, "arguments": dict(arguments or {})}
    if usage is not None:
        action["usage"] = usage.document()
    if refuse is not None:
        action["refuse"], action["reason"] = refuse.label, reason
    return json.dumps(action)


def json_or_text(text: str) -> Any:
    """The value that a text holds as JSON, or the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def spoken(text: str) -> str:
    """Shorten a tool call for display to its name and arguments, without token counts; return any other text unchanged."""
    document = json_or_text(text)
    if not isinstance(document, Mapping) or not isinstance(document.get("name"), str):
        return text
    arguments = document.get("arguments")
    shown = json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, Mapping) and arguments else ""
    return f"{document['name']} {shown}".strip()


def read_action(text: Any, plans: bool = False) -> Action:
    """Parse a text action. Text that cannot be read becomes a call with status MALFORMED and a `problem`.

    Only where there are `plans` is a document with the key "plan" one.
    """
    if not isinstance(text, str):
        return _malformed(f"expected text, got {type(text).__name__}")
    if text.strip() == FINISH:
        return Action("finish")
    try:
        document = _load(text)
    except (ValueError, RecursionError) as error:
        return _malformed(f"expected a JSON object with name and arguments, got {text[:60]!r} ({error})"[:240])
    if not isinstance(document, dict):
        return _malformed(f"expected a JSON object, got {type(document).__name__}")
    usage = read_usage(document.get("usage"))
    if plans and "plan" in document:
        try:
            steps = read_steps(document["plan"])
        except InvalidPlan as error:
            return _malformed(str(error)[:240], usage)
        return Action("plan", tuple(_read_call(item) for item in document["plan"]), usage=usage, steps=steps)
    calls = document.get("calls")
    if calls is not None:
        if not isinstance(calls, list) or not calls or len(calls) > MAX_CALLS:
            return _malformed(f"calls: expected a list of 1 to {MAX_CALLS} calls", usage)
        return Action("call", tuple(_read_call(call) for call in calls), usage=usage)
    name = document.get("name")
    if name in RESERVED:
        arguments = _read_arguments(document.get("arguments"))
        if arguments is None:
            return _malformed("arguments: expected a JSON object", usage)
        if name == FINISH:
            answer = arguments.get("answer", "")
            text_answer = answer if isinstance(answer, str) else json.dumps(answer, default=str)
            return Action("finish", answer=text_answer, gave_up=arguments.get("give_up") is True, usage=usage)
        if name == THINK:
            return Action("think", usage=usage)
        seconds = _seconds(arguments.get("seconds"))
        return Action("wait", seconds=0.0 if seconds is None else seconds, usage=usage)
    return Action("call", (_read_call(document),), usage=usage)


_raw_decode = json.JSONDecoder().raw_decode


def _load(text: str) -> Any:
    """What `json.loads` returns and raises, in two thirds of its time for an object with nothing around it."""
    # nearly all actions are one object; the general reader looks for leading and trailing space first
    if text.startswith("{"):
        document, end = _raw_decode(text)
        if end == len(text):
            return document
    return json.loads(text)


def _malformed(problem: str, usage: Usage | None = None) -> Action:
    return Action("call", (ToolCall("", status=Status.MALFORMED, problem=problem),), usage=usage)


def _read_call(document: Any) -> ToolCall:
    if not isinstance(document, dict):
        return ToolCall("", status=Status.MALFORMED, problem=f"a call must be a JSON object, got {type(document).__name__}")
    name = document.get("name")
    if not isinstance(name, str) or not name:
        return ToolCall("", status=Status.MALFORMED, problem=f"name: expected the name of a function, got {str(name)[:60]!r}")
    arguments = _read_arguments(document.get("arguments"))
    if arguments is None:
        return ToolCall(name, status=Status.MALFORMED, problem="arguments: expected a JSON object, or a string that holds one")
    refuse = document.get("refuse")
    if isinstance(refuse, str):
        status = _POLICY_REFUSALS.get(refuse)
        if status is not None:
            return ToolCall(name, arguments, status, str(document.get("reason", ""))[:240])
    return ToolCall(name, arguments)


_POLICY_REFUSALS = {
    status.label: status
    for status in (Status.FORBIDDEN, Status.NOT_REGISTERED, Status.OVER_BUDGET, Status.MALFORMED, Status.UNKNOWN_TOOL)
}
"""Refusals that an agent's own access rules may declare, for example for an unregistered tool. They are recorded with the call,
take `gateway_s` of simulated time, cost nothing, and replay like any other action."""


def _read_arguments(value: Any) -> dict[str, Any] | None:
    """The arguments as a dict, from an object or a JSON string of one, which models send as often; None for anything else."""
    if value is None or value == "":
        return {}
    document = json_or_text(value) if isinstance(value, str) else value
    return document if isinstance(document, dict) else None


def read_usage(value: Any) -> Usage | None:
    """The token usage that an action reports, with the model's time if that is among it; None where it cannot be read."""
    if not isinstance(value, dict):
        return None
    counts = [value.get(name, 0) for name in _TOKEN_CLASSES]
    for number in counts:
        if type(number) is not int or not 0 <= number <= MAX_TOKENS_REPORTED:
            return None
    read, spoken, cached, stored, thought = counts
    if cached or stored or thought:
        cached, stored, thought = min(cached, read), min(stored, read - min(cached, read)), min(thought, spoken)
    prompt = None if "prompt" not in value else _read_prompt(value["prompt"])
    return Usage(read, spoken, cached, _seconds(value.get("seconds")), stored, thought, prompt)


def _read_prompt(value: Any) -> Prompt | None:
    """The parts of a prompt that an action reports; None where they cannot be read."""
    if not isinstance(value, dict) or not isinstance(parts := value.get("parts"), list) or len(parts) > MAX_PARTS:
        return None
    same, marks = value.get("same", 0), value.get("marks", [])
    if (
        type(marks) is not list
        or len(marks) > MAX_MARKS
        or not all(type(mark) is int and 0 < mark <= MAX_PARTS for mark in marks)
    ):
        return None
    fine = type(same) is int and 0 <= same <= MAX_PARTS and all(
        type(part) is list and len(part) == 2 and type(part[0]) is str and len(part[0]) <= MAX_DIGEST
        and type(part[1]) is int and 0 <= part[1] <= MAX_TOKENS_REPORTED
        for part in parts
    )  # fmt: skip
    return Prompt(same, tuple([(digest, tokens) for digest, tokens in parts]), tuple(marks)) if fine else None


_TOKEN_CLASSES = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")


def _seconds(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and 0 <= value <= MAX_SECONDS else None
