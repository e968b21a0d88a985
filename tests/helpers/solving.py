"""A player that knows a task's solution, for trying how others' programs play an episode."""

import json
from collections.abc import Collection
from typing import Any

from costgym.simulators.tasks import Task


def next_call(task: Task, names: Collection[str], read: str, tried: Collection[str]) -> tuple[str, dict[str, Any]]:
    """The next call of one who knows the facts: a tool for the first that was not read yet, else the answer.

    Args:
        task: what is played.
        names: of the tools on offer.
        read: everything that the tools returned so far.
        tried: names of the tools that were called.
    """
    plain = read.replace(",", "")
    for need in task.needs:
        if str(need.fact).replace(",", "") not in plain:
            for name in need.tools:
                if name in names and name not in tried:
                    return name, dict(need.arguments)
    return "finish", {"answer": "; ".join(str(need.fact) for need in task.needs)}


def tagged(name: str, arguments: dict[str, Any]) -> str:
    """A call as open models write it."""
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"
