"""Tasks: a query, what solves it, and how an answer is graded.

A task has *needs*: facts that its answer must hold. Each need is served by some of the task's candidate tools, called
with the right arguments; an argument may be another need's answer, which makes a chain. Grading reads the final answer's
text and nothing else.
"""

import json
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from costgym.simulators.bounds import out_of_bounds
from costgym.simulators.errors import ConfigError, check_known
from costgym.simulators.rules.grades import grade
from costgym.simulators.tools import WRITE, Catalog, Tool

LEVELS = ("statement", "category", "tool", "api", "hybrid")
"""Granularities of an instruction, after ToolPlanner, from a plain statement to one that names every API."""


@dataclass(frozen=True, slots=True)
class Need:
    """A fact that the answer must hold."""

    fact: str  # the text that shows it, distinctive enough to be looked for in an answer
    tools: tuple[str, ...]
    # the right arguments; None where any that fit the schema will do (ToolBench tasks)
    arguments: Mapping[str, Any] | None = None
    after: tuple[int, ...] = ()  # indices of the needs whose answers are among the arguments
    wish: str = ""
    capability: str = ""  # the capability that it asks for; tools of this capability serve it
    alternative: "Need | None" = None  # the need that replaces it when the user changes their mind; None where they cannot
    fact_type: str = ""  # one of `grading.FACT_TYPES`; empty for the type that the fact's writing shows
    tolerance: float = 0.0  # difference at which a number in the answer still counts, in the fact's unit
    accept: tuple[str, ...] = ()  # other facts that an answer may state in its place
    asked: bool = True  # the answer must state it; False where it only serves to find another need's fact
    optional: bool = False
    state: bool = False  # it wants an effect to be there once, which calls of its tools make; `fact` is what they return
    given: bool = False  # it is known from the start: the query, or what everybody knows, answers it, and no tool serves it
    # texts that an answer must not state beside the fact: it would leave open which of them it means
    rivals: tuple[str, ...] = ()
    amount: float = 0.0  # what such an effect is worth, in the scenario's currency: what is lost where it is there twice

    @property
    def required(self) -> bool:
        """Return whether an answer without its fact, or an end without its effect, is incomplete."""
        return (self.asked or self.state) and not self.optional


@dataclass(frozen=True, slots=True)
class Task:
    """A query with what solves it."""

    id: str  #: its name, unique within its task set
    number: int  #: its place in the whole task set; it keys the episode's chance
    query: str  #: what the user says
    needs: tuple[Need, ...]  #: the facts wanted, 1 to 6 in the marketplace
    candidates: tuple[str, ...]  #: names of the tools on offer, in a fixed order: the slots of an episode
    group: str = ""  #: G1 (one provider), G2 (one category), G3 (across categories), or a subset's name
    #: the query at each granularity of `LEVELS`, where there are several
    instructions: Mapping[str, str] = field(default_factory=dict)
    size_level: int = 0  #: size level of the input, 0 to 3; duration and memory depend on it
    solvable: bool = True  #: False where no tool on offer can serve some need
    #: names of the tools that the instructions mean, one a need; empty for the first tool of each need
    named: tuple[str, ...] = field(default=(), repr=False)


def needed(needs: Sequence[Need]) -> list[bool]:
    """Return for each need whether a complete answer depends on it: it is required, or a required one takes its fact."""
    required = [need.required for need in needs]
    for index in range(len(needs) - 1, -1, -1):
        if required[index]:
            for before in needs[index].after:
                required[before] = True
    return required


class TaskSet(Sequence[Task]):
    """All tasks of a world, with the splits `train` and `test`."""

    def __init__(self, tasks: Sequence[Task], splits: Mapping[str, Sequence[int]]) -> None:
        self._tasks = tuple(tasks)
        self._splits = {name: tuple(numbers) for name, numbers in splits.items()}

    def __len__(self) -> int:
        return len(self._tasks)

    def __getitem__(self, number: Any) -> Any:
        return self._tasks[number]

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks)

    def numbers(self, split: str) -> Sequence[int]:
        """Numbers of the tasks in a split."""
        check_known("split", split, self._splits)
        return self._splits[split]

    def has(self, number: int) -> bool:
        """Return whether a task has this number."""
        return 0 <= number < len(self)

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self._splits)

    @property
    def most_candidates(self) -> int:
        """The largest number of tools that any task has on offer."""
        return max(len(task.candidates) for task in self)


class OnlyTask(TaskSet):
    """The one task that is played, under any number."""

    def __init__(self, task: Task) -> None:
        super().__init__((task,), {})

    def __getitem__(self, number: Any) -> Any:
        return self._tasks[0]


KEPT = 2_048  # tasks that are kept once they are written


class KeptTasks(TaskSet):
    """Base of tasks that are written when they are asked for; the last `KEPT` of them are kept."""

    def __init__(self, splits: Mapping[str, Sequence[int]]) -> None:
        super().__init__((), splits)
        self._recent: OrderedDict[int, Task] = OrderedDict()

    def _written(self, index: int) -> Task:
        """Write the task with this number."""
        raise NotImplementedError

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return tuple(self[index] for index in range(*number.indices(len(self))))
        index = int(number) + len(self) if number < 0 else int(number)
        task = self._recent.get(index)
        if task is None:
            task = self._recent[index] = self._written(index)
            if len(self._recent) > KEPT:
                self._recent.popitem(last=False)
        return task

    def __iter__(self) -> Iterator[Task]:
        return (self[number] for number in range(len(self)))


class Answers(Protocol):
    """The content that tools return; it depends on the call's arguments alone."""

    def answer(self, tool: Tool, arguments: Mapping[str, Any], task: Task) -> str | None:
        """The JSON text that a working call returns, or None where there is nothing for these arguments."""

    def irrelevant(self, tool: Tool, arguments: Mapping[str, Any], task: Task, luck: float) -> str:
        """A plausible answer about something else; `luck` in [0, 1) picks which."""


def normalise(value: Any) -> str:
    """Bring an argument or a fact into the form in which it is compared, without case, spacing and number formats."""
    if type(value) is str:
        return " ".join(value.casefold().split())
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, sort_keys=True, default=str).casefold()
    return " ".join(str(value).casefold().split())


def arguments_match(actual: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Return whether every wanted value is among the given arguments. Further arguments do not matter."""
    if wanted is None:
        return True
    return all(name in actual and _agrees(actual[name], value) for name, value in wanted.items())


def _agrees(actual: Any, wanted: Any) -> bool:
    """Return whether a value is the wanted one; of an object its wanted members, and of a list each item."""
    if isinstance(wanted, Mapping):
        return isinstance(actual, Mapping) and arguments_match(actual, wanted)
    if isinstance(wanted, list | tuple):
        return isinstance(actual, list | tuple) and len(actual) == len(wanted) and all(map(_agrees, actual, wanted))
    return normalise(actual) == normalise(wanted)


_WORD = re.compile(r"\w")


def fact_in(fact: str, normalised_answer: str) -> bool:
    """Return whether the fact stands in the answer as a whole word or number, not as a part of a longer one."""
    wanted = normalise(fact)
    start = normalised_answer.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        before = normalised_answer[start - 1] if start else " "
        after = normalised_answer[end] if end < len(normalised_answer) else " "
        if not (_WORD.match(before) and _WORD.match(wanted[0])) and not (_WORD.match(after) and _WORD.match(wanted[-1])):
            return True
        start = normalised_answer.find(wanted, start + 1)
    return False


@dataclass(frozen=True, slots=True)
class Grade:
    """The grade of an answer."""

    share: float  # share of the required facts that the answer states; 0 for a dump, which states too much beside them
    strict: bool  # the answer states every required fact and is no dump
    judged: bool  # a lenient judge passes the answer
    precision: float = 1.0  # share of the values stated that were asked for


@dataclass(frozen=True, slots=True)
class Judge:
    """A seeded stand-in for ToolEval's lenient model judge.

    Like that judge it works in two stages. First, whether the query can be solved with the tools on offer, which it knows;
    where it cannot, any answer passes with one fixed chance. Then, whether the answer solves it: the chance to pass rises with
    the share of facts. Giving up never passes. No model is asked; it is meant for the papers' protocols alone.

    Source: ToolEval's rules and the measured agreement of model judges with people (68 to 74 % on "solved"; StableToolBench,
    Table 8): a judge misses some full answers and waves through many partial ones.
    """

    all_facts: float = 0.96
    none: float = 0.08
    curve: float = 1.0  # exponent of the share in between; above 1 the judge is harder on partial answers
    unsolvable: float = 1.0  # chance that an answer to an unsolvable query passes

    def __post_init__(self) -> None:
        for name in ("all_facts", "none", "curve", "unsolvable"):
            if problem := out_of_bounds(f"judge.{name}", getattr(self, name)):
                raise ConfigError(f"judge.{name}", problem)

    def chance(self, share: float, solvable: bool = True) -> float:
        """Chance that an answer with this share of the facts passes. It never falls as the share rises."""
        if not solvable:
            return self.unsolvable
        return self.none + (self.all_facts - self.none) * float(share**self.curve)

    def grade(
        self,
        present: Sequence[bool],
        luck: float,
        solvable: bool = True,
        gave_up: bool = False,
        precision: float = 1.0,
        clean: bool = True,
    ) -> Grade:
        """Grade an answer: for each required need whether it is `found`, and the episode's `luck` for the judge in [0, 1).

        `clean` says that no effect is there twice, and none that nobody wants. Giving up never passes.
        """
        share = sum(present) / len(present) if present else 0.0
        strict, judged = grade(sum(present), len(present), clean and not gave_up, luck, self.chance(share, solvable))
        return Grade(share, strict, judged, precision)


def needs_by_tool(task: Task, catalog: Catalog) -> dict[str, tuple[int, ...]]:
    """Indices of the needs that each tool serves, in order, or whose effects it checks or takes back; others are left out."""
    served: dict[str, tuple[int, ...]] = {}
    for index, need in enumerate(task.needs):
        beside: list[str] = []
        if need.state:
            tools = (catalog.get(name) for name in task.candidates)
            beside = [
                tool.name for tool in tools if tool.effect and tool.effect.role != WRITE and tool.effect.of == need.capability
            ]
        for name in (*need.tools, *beside):
            served[name] = (*served.get(name, ()), index)
    return served
