"""ToolPlanner's measures: whether a solution passes, whether it matches its instruction, and what it is worth.

Source: ToolPlanner (arXiv 2409.14826), Section 4.3, and its published evaluation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..simulators.errors import UnknownName

MATCH_LEVELS = ("category", "tool", "api")
REWARDS = {(True, True): 1, (False, True): -1, (True, False): -2, (False, False): -3}
"""(passed, matched): the reward of a solution."""
APOLOGIES = ("sorry", "apologize", "apology", "unfortunately", "couldn't")
"""An answer with one of these in it does not pass, in whatever spelling of case."""
NAME_LENGTH = 64
_GIVES_ANSWER = re.compile(r'"return_type"\s*:\s*"give_answer"')


class Api(NamedTuple):
    """One function by its three names. `tool` is the provider in ToolBench's words."""

    category: str
    tool: str
    api: str

    @property
    def function(self) -> str:
        """The name a model calls it by."""
        return f"{self.api}_for_{self.tool}"[-NAME_LENGTH:]


Named = Api | Mapping[str, str] | Sequence[str] | str


def solution_reward(passed: bool, matched: bool) -> int:
    """What a solution is worth: 1 (passed and matched), -1 (matched only), -2 (passed only) or -3 (neither)."""
    return REWARDS[bool(passed), bool(matched)]


def match(called: Iterable[Named], gold: Iterable[Named], level: str) -> bool:
    """All and only the named categories, tools or APIs were called; order and repeats do not matter.

    Args:
        called, gold: functions as `Api`, as mappings with the keys category, tool and api, as triples, or as plain names at
            the level.
        level: "category", "tool" or "api".

    Raises:
        UnknownName: there is no such level.
    """
    return names_at(called, level) == names_at(gold, level)


def subset(called: Iterable[Named], gold: Iterable[Named], level: str) -> bool:
    """Something was called, and nothing but what was named; arguments and errors as `match`."""
    names = names_at(called, level)
    return bool(names) and names <= names_at(gold, level)


def names_at(functions: Iterable[Named], level: str) -> frozenset[Any]:
    """The names of functions at a level; an API is told apart by its tool too."""
    if level not in MATCH_LEVELS:
        raise UnknownName("match level", level, MATCH_LEVELS)
    place = MATCH_LEVELS.index(level)
    found: set[Any] = set()
    for function in functions:
        if isinstance(function, str):
            found.add(function)
            continue
        names = [function[key] for key in MATCH_LEVELS] if isinstance(function, Mapping) else list(function)
        found.add((names[1], names[2]) if level == "api" else names[place])
    return frozenset(found)


def passed(function: str, arguments: str | Mapping[str, Any]) -> bool:
    """A solution passes if its last step finishes with an answer that is no apology.

    Args:
        function: name of the last step's function.
        arguments: of that step, as written or read.
    """
    if function.casefold() != "finish":
        return False
    text = arguments if isinstance(arguments, str) else json.dumps(dict(arguments), default=str)
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        read = None
    if isinstance(read, dict) and "return_type" not in read:
        answer = read.get("answer")
        return read.get("give_up") is not True and isinstance(answer, str) and bool(answer.strip()) and not _apology(answer)
    return bool(_GIVES_ANSWER.search(text)) and not _apology(text)


def _apology(text: str) -> bool:
    plain = text.casefold()
    return any(word in plain for word in APOLOGIES)


def solution_rewards(
    called: Sequence[Named], gold: Sequence[Named], function: str, arguments: str | Mapping[str, Any]
) -> dict[str, int]:
    """The reward of a solution at every level; see `passed` and `match` for the arguments."""
    works = passed(function, arguments)
    return {level: solution_reward(works, match(called, gold, level)) for level in MATCH_LEVELS}
