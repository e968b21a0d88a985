"""Plans of calls as one action: steps with what they depend on, which run side by side as far as that allows."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from costgym.simulators.errors import InvalidPlan
from costgym.simulators.plan import TASK_INPUT, Plan, PlanStep
from costgym.simulators.world import Call, Episode, WorldEvent

MAX_STEPS, MAX_ID = 16, 64
_REFERENCE = re.compile(r"\{([^{}.]+)((?:\.[^{}.]+)*)\}")


def read_steps(items: Any) -> tuple[PlanStep, ...]:
    """The steps of a plan and what each depends on: the steps after which it comes, and those whose results its arguments take.

    Raises:
        InvalidPlan: They are no steps, are too many, or go in a circle; says which.
    """
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_STEPS:
        raise InvalidPlan(f"expected a list of 1 to {MAX_STEPS} steps")
    ids = [_id_of(item, number) for number, item in enumerate(items, 1)]
    steps = []
    for name, item in zip(ids, items, strict=True):
        after = item.get("after", [])
        if not isinstance(after, list) or not all(isinstance(other, str | int) for other in after):
            raise InvalidPlan(f"step {name}: after: expected a list of ids of other steps, got {str(after)[:60]!r}")
        arguments = item.get("arguments")
        taken = [match[1] for match in _references(arguments)] if isinstance(arguments, Mapping) else []
        steps.append(PlanStep(name, tuple(dict.fromkeys([*map(str, after), *taken])) or (TASK_INPUT,)))
    return Plan(tuple(steps)).steps


def _id_of(item: Any, number: int) -> str:
    if not isinstance(item, dict):
        raise InvalidPlan(f"step {number}: expected a JSON object with id, name and arguments, got {type(item).__name__}")
    name = item.get("id", number)
    if isinstance(name, bool) or not isinstance(name, str | int) or not 0 < len(str(name)) <= MAX_ID:
        raise InvalidPlan(f"step {number}: id: expected a short text or a number, got {str(name)[:60]!r}")
    return str(name)


def _references(arguments: Mapping[str, Any]) -> Iterator[re.Match[str]]:
    for value in arguments.values():
        if isinstance(value, str) and (match := _REFERENCE.fullmatch(value)):
            yield match


class Results(NamedTuple):
    """What a plan brought."""

    calls: list[Call | None]  # by step; None for one that the end of the episode came before
    news: list[WorldEvent]


def run_plan(
    episode: Episode,
    steps: Sequence[PlanStep],
    arguments: Sequence[Mapping[str, Any]],
    submit: Callable[[int, Mapping[str, Any]], Call],
    refuse: Callable[[int, str], Call],
) -> Results:
    """Run a plan on the clock: each step as soon as all that it depends on has ended.

    A step whose argument is the result of a call that brought none is refused.

    Args:
        steps: The steps.
        arguments: Of each step, with references to results in them.
        submit: Submits a step, by its number, with these arguments.
        refuse: Turns a step down, for a reason.
    """
    number = {step.tool: index for index, step in enumerate(steps)}
    calls: list[Call | None] = [None] * len(steps)
    ended: dict[str, Call] = {}
    news: list[WorldEvent] = []
    waiting = list(steps)
    while not episode.over and len(ended) < len(steps):
        ready = next((step for step in waiting if all(dep == TASK_INPUT or dep in ended for dep in step.deps)), None)
        if ready is None:
            event = episode.wait()
            if isinstance(event, WorldEvent):
                news.append(event)
            elif event is not None:
                ended |= {step.tool: event for step in steps if calls[number[step.tool]] is event}
            continue
        waiting.remove(ready)
        index = number[ready.tool]
        filled = fill(arguments[index], {name: (call, episode.content(call)) for name, call in ended.items()})
        call = calls[index] = refuse(index, filled) if isinstance(filled, str) else submit(index, filled)
        if call.finished_s >= 0:
            ended[ready.tool] = call
    return Results(calls, news)


def fill(arguments: Mapping[str, Any], results: Mapping[str, tuple[Call, str]]) -> dict[str, Any] | str:
    """Arguments with the results that they refer to in them; in words what is wrong, where a result has no such value."""
    filled: dict[str, Any] = {}
    for name, value in arguments.items():
        match = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            filled[name] = value
            continue
        call, text = results[match[1]]
        if not call.status.executed:
            return f"{name}: step {match[1]} was not executed ({call.status.label})"
        result = _value(text, name, match[2].split(".")[1:], call.arguments or {})
        if result is None:
            return f"{name}: the result of step {match[1]} has no such value"
        filled[name] = result
    return filled


def _value(text: str, name: str, path: Sequence[str], arguments: Mapping[str, Any]) -> str | int | float | None:
    """The value of a result at a path; without one the value under an argument's name, or else the first that is no echo."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None if path else text
    if isinstance(document, dict) and "error" in document:
        return None
    for part in path:
        if isinstance(document, list) and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        elif isinstance(document, dict) and part in document:
            document = document[part]
        else:
            return None
    if path:
        return document if isinstance(document, str | int | float) else None
    values = list(_values(document, ""))
    plain = name.replace("_", "").casefold()
    named = [value for key, value in values if key.replace("_", "").casefold() == plain]
    others = [value for key, value in values if key != "status" and value not in arguments.values()]
    return next(iter((*named, *others)), None)


def _values(document: Any, key: str) -> Iterator[tuple[str, str | int | float]]:
    if isinstance(document, dict):
        for name, value in document.items():
            yield from _values(value, name)
    elif isinstance(document, list):
        for value in document:
            yield from _values(value, key)
    elif isinstance(document, str | int | float) and not isinstance(document, bool):
        yield key, document
