"""Recorded episodes for tests: an agent that acts at random, and edits of a record."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from costgym.agents.base import NUMERIC, Agent
from costgym.envs.actions import encode_action


class Dice(Agent):
    """Random actions of either view, by its own seed."""

    name = "dice"

    def __init__(self, env_id: str = NUMERIC) -> None:
        self.env_id = env_id

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self._tools = getattr(seat, "tools", ())

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        if self.env_id == NUMERIC:
            return int(self._generator.choice(np.flatnonzero(info["action_mask"])))
        tools = self._tools
        pick = int(self._generator.integers(len(tools) + 1))
        if pick == len(tools):
            return encode_action("finish", {"answer": "42 \ud83d and done"})
        return encode_action(tools[pick].name, dict.fromkeys(tools[pick].parameters["required"], "x"))


def leaf_paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to every leaf."""
    if isinstance(value, dict) and value:
        return [leaf for key in value for leaf in leaf_paths(value[key], (*path, key))]
    if isinstance(value, list) and value:
        return [leaf for index in range(len(value)) for leaf in leaf_paths(value[index], (*path, index))]
    return [path]


def with_another_value(document: Any, path: tuple[Any, ...], pick: Callable[[int], int]) -> Any:
    """The document with one leaf changed: by a little, by much, or to another type; `pick(n)` chooses one of n."""
    changed = copy.deepcopy(document)
    target = changed
    for key in path[:-1]:
        target = target[key]
    old = target[path[-1]]
    if isinstance(old, bool):
        choices: list[Any] = [not old, None, int(old)]
    elif isinstance(old, int | float):
        near = old + (1e-9 if isinstance(old, float) and abs(old) < 1e3 else 1)
        choices = [old + 1, old * 2 + 1, -old - 1, str(old), None, near]
    elif isinstance(old, str):
        choices = [old + "x", old[:-1], "", None, 7]
    else:
        choices = [["x"], 1]
    choices = [new for new in choices if type(new) is not type(old) or new != old]
    target[path[-1]] = choices[pick(len(choices))]
    return changed


def tampered(document: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    target = changed
    for key in path[:-1]:
        target = target[key]
    old = target[path[-1]]
    if isinstance(old, bool):
        new: Any = not old
    elif isinstance(old, int | float):
        new = old + 1
    elif old is None:
        new = "price"
    elif isinstance(old, str):
        new = old + "x"
    elif isinstance(old, dict):
        new = {"sample": 0}
    else:
        new = ["x"]
    target[path[-1]] = new
    return changed
