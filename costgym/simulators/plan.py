"""A plan: which tools run on what, as a directed acyclic graph.

A plan is written as a flat list, ``[tool, [dependencies], tool, [dependencies], ...]``, in an order in which every tool
comes after what it depends on. A tool occurs once and reads the output of its *last* listed dependency that it can read;
the others only have to be finished. What nothing depends on is an output of the plan (a sink).

Structure is checked when a plan is made; :meth:`Plan.check_types` holds it to the tools of a world as well.
Episodes play it on the clock (`opencatp.world.PlanEpisode.play`): branches run at once, as far as slots and GPU memory allow.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from costgym.simulators.errors import InvalidPlan, InvalidProfile

TASK_INPUT = "input_of_query"


@dataclass(frozen=True, slots=True)
class Signature:
    """The kinds of data that a tool reads and makes, such as ``image`` and ``text``."""

    takes: str
    gives: str


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A tool of a plan and what it depends on: earlier tools, or the task's input (``TASK_INPUT``)."""

    tool: str
    deps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked plan.

    Attributes:
        steps: The tools in the order written.

    Raises:
        InvalidPlan: The plan is empty, or a tool occurs twice, has no dependency, or depends on itself, on a later tool or on
            a tool outside the plan. `reason` says which, and `place` where.

    >>> plan = Plan.from_list(["denoise", ["input_of_query"], "caption", ["denoise"], "detect", ["denoise"]])
    >>> plan.sinks
    ('caption', 'detect')
    >>> plan.execution_time({"denoise": 2.0, "caption": 1.0, "detect": 0.5})
    3.0
    """

    steps: tuple[PlanStep, ...]

    def __post_init__(self) -> None:
        if not self.steps:
            raise InvalidPlan("a plan has at least one tool, this one is empty")
        seen: set[str] = set()
        for position, (tool, deps) in enumerate((step.tool, step.deps) for step in self.steps):
            problem = self._problem(tool, deps, seen)
            if problem:
                raise InvalidPlan(problem, _location(position, tool))
            seen.add(tool)

    def _problem(self, tool: str, deps: tuple[str, ...], seen: set[str]) -> str:
        """What is wrong with a tool that comes after those seen; "" if nothing is."""
        if not tool or tool == TASK_INPUT:
            return f"{tool!r} is not the name of a tool"
        if tool in seen:
            return f"{tool} occurs twice, first as tool {self.nodes.index(tool) + 1}; a tool occurs once"
        if not deps:
            return f"no dependencies; name earlier tools or {TASK_INPUT}"
        for dep in deps:
            if dep == tool:
                return f"{tool} depends on itself"
            if dep != TASK_INPUT and dep not in seen:
                if dep in self.nodes:
                    return f"depends on {dep}, which comes only later (tool {self.nodes.index(dep) + 1})"
                return f"depends on {dep!r}, which is not in the plan"
        return ""

    @classmethod
    def from_list(cls, items: Sequence[Any], *, tidy: bool = True, aliases: Mapping[str, str] | None = None) -> "Plan":
        """Read a plan from the flat list ``[tool, [dependencies], ...]``.

        Args:
            items: The flat list. A dependency list may be wrapped in further lists.
            tidy: Lower-case the names, write spaces as underscores, and take any dependency with "input" in its name that
                is not a tool of the plan for the task's input, as OpenCATP does.
            aliases: Other names of tools, looked up after tidying.

        Raises:
            InvalidPlan: The list has an odd length, an item is neither a name nor a list, or the plan is not valid (see the
                class).
        """
        if isinstance(items, str) or not isinstance(items, Sequence):
            raise InvalidPlan(f"expected a list [tool, [dependencies], ...], got {type(items).__name__}")
        known = aliases or {}
        names: list[str] = []
        dep_lists: list[list[str]] = []
        for position, item in enumerate(items):
            if position % 2 == 0:
                if not isinstance(item, str):
                    raise InvalidPlan(f"expected a tool's name, got {item!r}", f"item {position + 1}")
                names.append(_tidy_tool(item, known) if tidy else known.get(item, item))
            elif isinstance(item, str) or not isinstance(item, Sequence):
                raise InvalidPlan(f"expected a list of dependencies, got {item!r}", f"item {position + 1}")
            else:
                dep_lists.append(list(_flat(item, f"item {position + 1}")))
        if len(dep_lists) < len(names):
            raise InvalidPlan(f"odd length: {names[-1]} has no list of dependencies", f"item {len(items)}")
        if tidy:
            tools = frozenset(names)
            dep_lists = [[_tidy_dep(dep, tools, known) for dep in deps] for deps in dep_lists]
        steps = zip(names, dep_lists, strict=True)
        return cls(tuple(PlanStep(name, tuple(known.get(dep, dep) for dep in deps)) for name, deps in steps))

    def to_list(self) -> list[Any]:
        """The flat list ``[tool, [dependencies], ...]`` that this plan is written as."""
        return [item for step in self.steps for item in (step.tool, list(step.deps))]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The tools, in the order written."""
        return tuple(step.tool for step in self.steps)

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """(dependency, tool), the task's input among the dependencies, each once, in the order written."""
        return tuple(dict.fromkeys((dep, step.tool) for step in self.steps for dep in step.deps))

    @property
    def sinks(self) -> tuple[str, ...]:
        """The tools that nothing depends on; their outputs are the plan's answer."""
        needed = {dep for step in self.steps for dep in step.deps}
        return tuple(step.tool for step in self.steps if step.tool not in needed)

    def execution_time(self, seconds: Mapping[str, float]) -> float:
        """Time from start to end where branches run at once: the length of the longest path, exactly.

        Args:
            seconds: Duration of each tool. Any unit will do; the result has the same.

        Raises:
            InvalidPlan: A tool has no duration.
            InvalidProfile: A duration is negative or not a finite number.
        """
        taken = {step.tool: _seconds_of(step.tool, position, seconds) for position, step in enumerate(self.steps)}
        return longest_path([(step.tool, step.deps) for step in self.steps], taken)

    def sequential_time(self, seconds: Mapping[str, float]) -> float:
        """Time from start to end where the tools run one after the other: the sum of their durations."""
        total = 0.0
        for position, step in enumerate(self.steps):
            total += _seconds_of(step.tool, position, seconds)
        return total

    def check_types(self, signatures: Mapping[str, Signature], given: Iterable[str] = ("image",)) -> "Plan":
        """Check the plan against the tools of a world; returns the plan itself.

        Args:
            signatures: What each tool takes and gives.
            given: The kinds of data in the task's input.

        Raises:
            InvalidPlan: A tool is unknown, or depends on data of another kind than it takes.
        """
        inputs = tuple(given)
        for position, step in enumerate(self.steps):
            location = _location(position, step.tool)
            signature = signatures.get(step.tool)
            if signature is None:
                raise InvalidPlan(f"unknown tool {step.tool!r}; known: {', '.join(signatures)}", location)
            for dep in step.deps:
                made = inputs if dep == TASK_INPUT else (signatures[dep].gives,)
                if signature.takes not in made:
                    what = "the task's input" if dep == TASK_INPUT else f"{dep}, which gives"
                    raise InvalidPlan(
                        f"takes {signature.takes}, but depends on {what} {' and '.join(made) or 'nothing'}", location
                    )
        return self

    def chains(self) -> dict[str, tuple[str, ...]]:
        """For every tool, the chain of tools that made its output; the tool itself is the last."""
        made: dict[str, tuple[str, ...]] = {TASK_INPUT: ()}
        for step in self.steps:
            made[step.tool] = (*made[step.deps[-1]], step.tool)
        del made[TASK_INPUT]
        return made


def longest_path(steps: Iterable[tuple[str, Sequence[str]]], seconds: Mapping[str, float]) -> float:
    """The time that tools take where each starts as soon as its dependencies, which stand before it, have ended."""
    # steps come after what they depend on, so one pass in the written order is enough
    end = {TASK_INPUT: 0.0}
    for tool, deps in steps:
        end[tool] = max([end[dep] for dep in deps], default=0.0) + seconds[tool]
    return max(end.values())


def _location(position: int, tool: str) -> str:
    return f"tool {position + 1} ({tool})"


def _seconds_of(tool: str, position: int, seconds: Mapping[str, float]) -> float:
    taken = seconds.get(tool)
    if taken is None:
        raise InvalidPlan(f"unknown tool {tool!r}: no time is given for it", _location(position, tool))
    if not 0.0 <= taken < math.inf:
        raise InvalidProfile(f"time of {tool}: expected zero or more, got {taken}")
    return taken


def _tidy_tool(name: str, aliases: Mapping[str, str]) -> str:
    tidied = "_".join(name.lower().split())
    return aliases.get(tidied, tidied)


def _tidy_dep(name: str, tools: frozenset[str], aliases: Mapping[str, str]) -> str:
    tidied = _tidy_tool(name, aliases)
    return TASK_INPUT if tidied not in tools and "input" in tidied else tidied


def _flat(item: Sequence[Any], location: str) -> Iterable[str]:
    for part in item:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Sequence):
            yield from _flat(part, location)
        else:
            raise InvalidPlan(f"expected the names of dependencies, got {part!r}", location)
