"""A user's own tools and tasks, written out in a scenario's YAML.

Tools of one capability can replace each other. Their answers follow from the tasks: every need says which fact a capability
gives for which arguments. For arguments that no task mentions, a tool has no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from ..bounds import StrictModel, within
from ..errors import DataError, InvalidProfile, UnknownName
from ..tasks import Need, Task, TaskSet, arguments_match, normalise
from ..tools import Catalog, Tool, ToolProfile
from .market import Marketplace

_PLACE = re.compile(r"\{(\d+)\}")
_TYPES = ("string", "integer", "number", "boolean")
Finite = Annotated[float, Field(allow_inf_nan=False)]
Scalar = str | int | Finite | bool
Name = Annotated[str, Field(min_length=1)]


class CustomTool(StrictModel):
    """A tool that the user describes.

    Attributes:
        name: The function name that a model calls; unique.
        capability: What the tool gives; needs ask for it. By default the tool's name.
        description, category, provider: Text for the documentation.
        parameters: Type of each argument (string, integer, number or boolean); all are required.
        profile: Fields of `ToolProfile`, such as fee, latency_s and reliability. Other fields have its defaults, except that
            the advertised figures are the true ones.
    """

    name: Name
    capability: str = ""
    description: str = ""
    category: Name = "Tools"
    provider: Name = "Own"
    parameters: dict[str, Literal["string", "integer", "number", "boolean"]] = Field(default_factory=dict)
    profile: dict[str, Finite | int | tuple[Finite, ...]] = Field(default_factory=dict)


class CustomNeed(StrictModel):
    """A fact that an answer must hold.

    Attributes:
        capability: Capability of the tools that give the fact.
        fact: The text that is looked for in the answer.
        arguments: The right arguments; "{0}" stands for the fact of the task's first need, which must be found before.
        wish: The need in words; by default the capability and its arguments.
    """

    capability: Name
    fact: Annotated[str, StringConstraints(pattern=r"\S")]
    arguments: dict[str, Scalar] = Field(default_factory=dict)
    wish: str = ""


class CustomTask(StrictModel):
    """A query and what its answer must hold.

    Attributes:
        query: What the user says.
        needs: The facts wanted.
        tools: Names of the tools on offer; by default all.
        split: "train" or "test"; by default the task is in both.
        size_level: Size level of the input, 0 to 3.
    """

    query: Name
    needs: tuple[CustomNeed, ...] = Field(min_length=1)
    tools: tuple[str, ...] | None = None
    split: Literal["train", "test"] | None = None
    size_level: int = within("source.tasks.size_level", default=0)


class CustomSource(StrictModel):
    """Tools and tasks that the scenario itself lists."""

    kind: Literal["own"] = "own"
    tools: tuple[CustomTool, ...] = Field(min_length=1)
    tasks: tuple[CustomTask, ...] = Field(min_length=1)

    def market(self, seed: int, failures: object) -> Marketplace:
        """The listed tools, tasks and answers; nothing of them is drawn.

        Raises:
            DataError: Two tools share a name, a profile is wrong, a need asks for what no tool on offer gives, two needs give
                different facts for the same arguments, or a need's argument refers to a later one; says which.
        """
        del seed, failures
        catalog = Catalog((_tool(tool, f"source.tools.{i}") for i, tool in enumerate(self.tools)), "source.tools")
        # a task of both splits is one task in two lists: it meets the same luck in both
        tasks = [_task(task, number, catalog) for number, task in enumerate(self.tasks)]
        splits = {
            name: [number for number, task in enumerate(self.tasks) if task.split in (None, name)] for name in ("train", "test")
        }
        for name, numbers in splits.items():
            if not numbers:
                raise DataError("source.tasks", f"no task is in the split {name!r}; leave `split` out where a task serves both")
        return Marketplace(catalog, TaskSet(tasks, splits), CustomAnswers(tasks))


def _tool(tool: CustomTool, place: str) -> Tool:
    known = {spec.name for spec in fields(ToolProfile)}
    for name in tool.profile:
        if name not in known:
            raise UnknownName(f"setting of {place}.profile", name, known)
    given: dict[str, Any] = dict(tool.profile)
    for name in ("concurrency", "rate_limit", "quota"):
        if name in given and (not isinstance(given[name], int) or isinstance(given[name], bool)):
            raise DataError("scenario", f"expected a whole number, got {given[name]!r}", f"{place}.profile.{name}")
    latency = given.get("latency_s", 1.0)
    given["latency_s"] = latency if isinstance(latency, tuple) else (float(latency),)
    given.setdefault("advertised_success", given.get("reliability", 1.0))
    given.setdefault("advertised_latency_s", given["latency_s"][0] if given["latency_s"] else 1.0)
    try:
        profile = ToolProfile(**given)
    except InvalidProfile as error:
        raise DataError("scenario", str(error), f"{place}.profile") from error
    schema = {name: {"type": form, "description": name.replace("_", " ")} for name, form in tool.parameters.items()}
    return Tool(
        name=tool.name,
        description=tool.description or f"Gives {tool.capability or tool.name}.",
        category=tool.category,
        provider=tool.provider,
        title=tool.name,
        parameters={"type": "object", "properties": schema, "required": list(schema)},
        profile=profile,
        capability=tool.capability or tool.name,
    )


def _task(task: CustomTask, number: int, catalog: Catalog) -> Task:
    place = f"source.tasks.{number}"
    names = task.tools if task.tools is not None else tuple(tool.name for tool in catalog)
    if len(set(names)) < len(names):
        raise DataError("scenario", f"expected each tool once, got {list(names)!r:.200}", f"{place}.tools")
    offered = [catalog.get(name) for name in names]
    needs: list[Need] = []
    for index, need in enumerate(task.needs):
        serving = tuple(tool.name for tool in offered if tool.capability == need.capability)
        if not serving:
            known = sorted({tool.capability for tool in offered})
            raise UnknownName(f"capability of {place}.needs.{index} among the tools on offer", need.capability, known)
        if any(other.capability == need.capability for other in needs):
            raise DataError(
                "scenario", f"two needs of one task ask for {need.capability!r}; split it", f"{place}.needs.{index}"
            )
        arguments, after = _filled(need.arguments, needs, f"{place}.needs.{index}.arguments")
        spoken = ", ".join(f"{name} {value}" for name, value in arguments.items())
        wish = need.wish or f"{need.capability.replace('_', ' ')}{f' of {spoken}' if spoken else ''}"
        needs.append(Need(need.fact, serving, arguments, after, wish, need.capability))
    texts = dict.fromkeys(("statement", "category", "tool", "api", "hybrid"), task.query)
    return Task(f"own-{number:05d}", number, task.query, tuple(needs), tuple(names), "", texts, task.size_level)


def _filled(arguments: Mapping[str, Scalar], found: list[Need], place: str) -> tuple[dict[str, Scalar], tuple[int, ...]]:
    """Put the facts that the arguments refer to into them; returns the arguments and the needs that the facts come from."""
    filled: dict[str, Scalar] = {}
    after: set[int] = set()
    for name, value in arguments.items():
        if isinstance(value, str) and (match := _PLACE.fullmatch(value)):
            index = int(match[1])
            if index >= len(found):
                raise DataError(
                    "scenario", f"expected the number of an earlier need (0 to {len(found) - 1}), got {value!r}", place
                )
            after.add(index)
            value = found[index].fact
        filled[name] = value
    return filled, tuple(sorted(after))


class CustomAnswers:
    """The answers of a user's own tools: the facts of all tasks' needs, by capability and arguments.

    Raises:
        DataError: Two needs give different facts for the same arguments.
    """

    def __init__(self, tasks: list[Task]) -> None:
        self._facts: dict[str, list[tuple[Mapping[str, Any], str]]] = {}
        # answers are looked up by capability and arguments alone, so two facts for the same arguments could not be told apart
        seen: dict[tuple[str, str], str] = {}
        for task in tasks:
            for need in task.needs:
                key = (need.capability, normalise(dict(need.arguments or {})))
                if seen.setdefault(key, need.fact) != need.fact:
                    problem = f"{need.capability} gives {seen[key]!r} in one task and {need.fact!r} in {task.id}; the same "
                    raise DataError("source.tasks", f"{problem}arguments must give the same fact")
                self._facts.setdefault(need.capability, []).append((dict(need.arguments or {}), need.fact))
        for facts in self._facts.values():
            facts.sort(key=lambda each: -len(each[0]))  # needs with the most arguments match most closely

    def answer(self, tool: Tool, arguments: Mapping[str, Any], task: Task) -> str | None:
        """The answer as JSON text, or None where no task mentions these arguments."""
        for wanted, fact in self._facts.get(tool.capability, ()):
            if arguments_match(arguments, wanted):
                return self._write(tool, wanted, fact)
        return None

    def irrelevant(self, tool: Tool, arguments: Mapping[str, Any], task: Task, luck: float) -> str:
        """The answer for other arguments of the same capability, or a bare acknowledgement where there are none."""
        wanted = {need.fact for need in task.needs}
        others = [each for each in self._facts.get(tool.capability, ()) if each[1] not in wanted]
        if not others:
            return json.dumps({"status": "ok"})
        chosen, fact = others[int(luck * len(others))]
        return self._write(tool, chosen, fact)

    @staticmethod
    def _write(tool: Tool, arguments: Mapping[str, Any], fact: str) -> str:
        return json.dumps({**arguments, tool.capability: fact}, ensure_ascii=False)
