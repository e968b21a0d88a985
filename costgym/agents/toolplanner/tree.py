"""Solution trees: rounds, the rewards of solutions and rounds, and the pairs that ranking is trained on.

A round is one reply with what its call brought. A solution is a path from the root to a leaf; a leaf answers, gives up, or is
cut off at the depth limit. A round is worth as much as the best solution through it.

Source: ToolPlanner (arXiv 2409.14826), Sections 4.3.1 and 4.3.2 and Appendix C.2; which words make an answer meaningless is
from the published evaluation.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from costgym.agents.models.base import ASSISTANT, FINISH, FunctionCall, Message
from costgym.simulators.errors import UnknownName
from costgym.simulators.marketplace.tasks import Luck
from costgym.simulators.tasks import LEVELS, normalise
from costgym.simulators.tools import Catalog, Tool

End = Literal["", "answer", "give_up", "cut"]
GIVE_UP, OTHER_TOOL, EARLY_ANSWER = "give_up", "other_tool", "early_answer"
"""Negatives that are made up where a positive round has no negative sibling."""
EARLY = "Here is what I know so far."


@dataclass(frozen=True, slots=True)
class Feedback:
    """The rewarded parts of a solution; one left out counts as good. Source: ToolPlanner, Table 5."""

    completion: bool = True  # whether it passes
    following: bool = True  # whether it matches the instruction


BOTH = Feedback()


@dataclass(slots=True, eq=False)
class Round:
    """A round of a solution tree."""

    tools: tuple[str, ...] = ()  # names of the tools it calls
    messages: tuple[Message, ...] = ()  # the reply and the result, to be added to the history
    end: End = ""  # the way in which the solution ends here, or "" where it goes on
    answer: str = ""  # the final answer, of an answering leaf
    children: "list[Round]" = field(default_factory=list)  # the rounds after it, in the order in which they were made
    reward: int | None = None  # reward of the best solution through it; None before `score`


@dataclass(frozen=True, slots=True)
class Pair:
    """Two rounds with the same history, the better one first. The first message of each is the reply to be ranked."""

    history: tuple[Round, ...]  # the rounds before, from the root
    # better, worse: the rounds; `better` has reward 1, `worse` a negative one
    better: Round
    worse: Round
    # the way in which `worse` was made up (`GIVE_UP`, `OTHER_TOOL` or `EARLY_ANSWER`), or "" where it is a node of the tree
    made: str = ""


def solutions(roots: Sequence[Round]) -> Iterator[tuple[Round, ...]]:
    """Yield all paths from a root to a leaf, in the order in which they ended."""
    for root in roots:
        if not root.children:
            yield (root,)
        for path in solutions(root.children):
            yield (root, *path)


def final_solution(roots: Sequence[Round]) -> tuple[Round, ...]:
    """Return the solution that counts: the last one made; the search stops at an answer, so that one is last."""
    path: list[Round] = []
    siblings = roots
    while siblings:
        path.append(siblings[-1])
        siblings = siblings[-1].children
    return tuple(path)


def called_tools(path: Sequence[Round], catalog: Catalog) -> list[Tool]:
    """Return the tools that a solution calls. Names that no tool has are ignored."""
    known = {tool.name: tool for tool in catalog}
    return [known[name] for step in path for name in step.tools if name in known]


def reward_of(path: Sequence[Round], gold: Sequence[Tool], level: str, catalog: Catalog, feedback: Feedback = BOTH) -> int:
    """Return the reward of one solution: 1 pass and match, -1 match only, -2 pass only, -3 neither."""
    finished = path[-1].answer if path and path[-1].end == "answer" else None
    return solution_reward(
        passed(finished) or not feedback.completion, not feedback.following or match(called_tools(path, catalog), gold, level)
    )


def score(roots: Sequence[Round], gold: Sequence[Tool], level: str, catalog: Catalog, feedback: Feedback = BOTH) -> int:
    """Give every round of a tree its reward; returns the best of all."""
    for path in solutions(roots):
        for step in path:
            step.reward = None
    for path in solutions(roots):
        value = reward_of(path, gold, level, catalog, feedback)
        for step in path:
            step.reward = value if step.reward is None else max(step.reward, value)
    return max((step.reward for step in roots if step.reward is not None), default=-3)


def extract_pairs(
    roots: Sequence[Round],
    gold: Sequence[Tool],
    level: str,
    catalog: Catalog,
    seed: int,
    others: Sequence[Tool] = (),
    feedback: Feedback = BOTH,
) -> list[Pair]:
    """Pairs for ranking: every round of reward 1 against each sibling of negative reward, or against one that is made up.

    Three kinds are made up, each where it surely is negative: giving up; a call of one of `others` that the instruction does
    not name; an early answer, where the calls so far do not match. The first needs task-completion feedback, the others
    instruction-following feedback; where none applies, the round gives no pair.
    """
    pairs: list[Pair] = []
    wrong = [tool for tool in others if feedback.following and not match([*gold, tool], gold, level)]

    def visit(siblings: Sequence[Round], history: tuple[Round, ...]) -> None:
        for step in siblings:
            if step.reward != 1:
                continue
            worse = [other for other in siblings if other.reward is not None and other.reward < 0]
            pairs.extend(Pair(history, step, other) for other in worse)
            if not worse:
                luck = Luck("negative", len(pairs), seed=seed)
                kinds = [GIVE_UP] if feedback.completion else []
                if wrong:
                    kinds.append(OTHER_TOOL)
                early = step.end != "answer" and not match(called_tools(history, catalog), gold, level)
                if early and feedback.following:
                    kinds.append(EARLY_ANSWER)
                if kinds:
                    kind = kinds[luck.below(len(kinds))]
                    pairs.append(Pair(history, step, _negative(kind, wrong, luck), kind))
            visit(step.children, (*history, step))

    visit(roots, ())
    return pairs


def _negative(kind: str, wrong: Sequence[Tool], luck: Luck) -> Round:
    if kind == GIVE_UP:
        return Round(messages=(_says(FINISH.name, {"answer": "", "give_up": True}),), end="give_up", reward=-3)
    if kind == EARLY_ANSWER:
        return Round(messages=(_says(FINISH.name, {"answer": EARLY}),), end="answer", answer=EARLY, reward=-2)
    name = wrong[luck.below(len(wrong))].name
    return Round(tools=(name,), messages=(_says(name, {}),), reward=-3)


def _says(name: str, arguments: dict[str, Any]) -> Message:
    return Message(ASSISTANT, "", (FunctionCall(name, arguments),))


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
    """Return whether a final answer (None: gave up, or cut off) is meaningful: neither empty nor an apology."""
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
    """Return the names of items at a granularity of `REQUIRES`: category, tool (our provider), api, or api of a tool."""
    return frozenset(_name(item, granularity) for item in items)


@lru_cache(maxsize=16_384)
def plain_name(name: str) -> str:
    """Return a name as it is compared: case, spaces and underscores do not matter."""
    return normalise(name.replace("_", " "))


def _name(item: Named, granularity: str) -> Any:
    if isinstance(item, str):
        return plain_name(item)
    if isinstance(item, Tool):
        item = {"category": item.category, "tool": item.provider, "api": item.title or item.name}
    if granularity == "api of a tool":
        return plain_name(item.get("tool", "")), plain_name(item["api"])
    return plain_name(item[granularity])
