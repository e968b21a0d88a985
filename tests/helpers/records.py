"""Recorded episodes for tests: an agent that acts at random, and edits of a record."""

from __future__ import annotations

import copy
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


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to every leaf."""
    if isinstance(value, dict) and value:
        return [leaf for key in value for leaf in places(value[key], (*path, key))]
    if isinstance(value, list) and value:
        return [leaf for index in range(len(value)) for leaf in places(value[index], (*path, index))]
    return [path]


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
