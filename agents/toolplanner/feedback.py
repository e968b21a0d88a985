"""ToolPlanner's feedback: does a solution pass, does it follow the instruction, and what is it worth.

Source: ToolPlanner (arXiv 2409.14826), Section 4.3.1; which words make an answer meaningless is from the published evaluation.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from ...simulators.errors import UnknownName
from ...simulators.tasks import LEVELS, normalise
from ...simulators.tools import Tool

REQUIRES = {"statement": "", "category": "category", "tool": "tool", "api": "api", "hybrid": "api of a tool"}
"""Names that an instruction of each level contains and a solution must use; every solution follows a statement.
Where an API alone is named and several tools have one of that name, each of them will do."""
# the last words are the simulated model's, in an answer that has nothing to tell
_APOLOGIES = re.compile(r"sorry|apologi[sz]e|apology|unfortunately|couldn['’]t|did not show what was asked for", re.IGNORECASE)

Named = Mapping[str, str] | Tool | str


def solution_reward(passed: bool, matched: bool) -> int:
    """Reward of a solution: 1 if it passes and matches, -1 if it only matches, -2 if it only passes, -3 if it does neither.

    Source: ToolPlanner, Eq. 1.
    """
    if matched:
        return 1 if passed else -1
    return -2 if passed else -3


def passed(answer: str | None) -> bool:
    """Return whether a solution passes: it ends in a meaningful answer.

    Args:
        answer: The final answer; None where the solution gave up or was cut off.

    Returns:
        False too for an empty answer and for one that apologises.
    """
    return answer is not None and bool(answer.strip()) and _APOLOGIES.search(answer) is None


def match(called: Iterable[Named], gold: Iterable[Named], level: str) -> bool:
    """Return whether a solution uses all that the instruction names and nothing else; order and repeats do not matter.

    Args:
        called: The calls, failed ones included, as tools, mappings with `category`, `tool` and `api`, or bare names.
        gold: The tools that the instruction names, in the same forms.
        level: An instruction level of `LEVELS`, or the granularity of the same name.

    Raises:
        UnknownName: There is no such level.
    """
    if level not in REQUIRES:
        raise UnknownName("instruction level", level, LEVELS)
    granularity = REQUIRES[level]
    if not granularity:
        return True
    return names(called, granularity) == names(gold, granularity)


def names(items: Iterable[Named], granularity: str) -> frozenset[Any]:
    """Return the names of items at a granularity of `REQUIRES`: category, tool (our provider), api, or api of a
    tool."""
    return frozenset(_name(item, granularity) for item in items)


def plain_name(name: str) -> str:
    """Return a name as it is compared: case, spaces and underscores do not matter."""
    return _plain(str(name))


@lru_cache(maxsize=16_384)
def _plain(name: str) -> str:
    return normalise(name.replace("_", " "))


def _name(item: Named, granularity: str) -> Any:
    if isinstance(item, str):
        return plain_name(item)
    if isinstance(item, Tool):
        item = {"category": item.category, "tool": item.provider, "api": item.title or item.name}
    if granularity == "api of a tool":
        return plain_name(item.get("tool", "")), plain_name(item["api"])
    return plain_name(item[granularity])
