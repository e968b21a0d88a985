"""The simulated model's reading of its context: facts, failures, and what it may call."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from costgym.agents import prompts
from costgym.agents.models.base import SYSTEM, TOOL, USER, Function, Message
from costgym.envs.actions import SEARCH
from costgym.simulators.marketplace.catalogue import false_promise
from costgym.simulators.status import AMBIGUOUS
from costgym.simulators.tasks import Need, Task, fact_in, normalise
from costgym.simulators.tools import CHECK, WRITE, Catalog, Tool

REGISTER = "tool_register"
_NO_TOOLS = (REGISTER, SEARCH)
_OPEN_ENDS = frozenset(status.label for status in AMBIGUOUS)


@dataclass(slots=True)
class Context:
    """A context, read."""

    shown: dict[str, None]  # tools whose documentation is there, in order
    names: dict[str, None]  # tools that are only named there, and can be registered
    several: bool  # registering takes several names at once
    costs: Mapping[str, float]  # prices of tools, where they are told
    known: list[int]  # wanted facts that a result shows, in the task's order
    open: list[int]
    changed: frozenset[int]  # needs that the user has changed
    needs: tuple[Need, ...]
    used: dict[str, None] = field(default_factory=dict)  # tools that were called
    failed: set[str] = field(default_factory=set)  # tools whose last result showed nothing wanted
    last_failed: str = ""  # the tool of the last call, if that failed
    failures: int = 0  # results in a row, up to the last, that showed nothing wanted
    after_result: bool = False  # the last message is a tool's result: the time to wonder whether to go on
    # the tool whose registration is the last message; where several were registered at once there is a choice to make, as among
    # all that is shown
    registered: str = ""
    described: bool = False  # names come with descriptions
    search: Function | None = None  # the function that searches the catalogue, where there is one
    listed: set[str] = field(default_factory=set)  # categories of the catalogue that were opened
    fruitless: int = 0  # searches that found no tool for what is missing
    doubt: str = ""  # the tool that writes whose call was the last and ended without telling whether it took effect; else ""

    def ready(self, need: int) -> bool:
        """Return whether the facts that its arguments need are known."""
        return all(before in self.known for before in self.needs[need].after)


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """A reader's knowledge of a task before an episode begins."""

    task: Task
    # number, short form and text of each fact. A fact's number is its need's; changed needs follow.
    facts: tuple[tuple[int, str, str], ...]
    need_of: dict[str, int]  # the need that each tool serves
    tools: dict[str, Tool]  # the candidates by name
    misnamed: dict[str, str]  # what the names of candidates promise falsely


_KNOWN: WeakKeyDictionary[Catalog, dict[int, _Known]] = WeakKeyDictionary()
MAX_KNOWN = 4096  # tasks of a catalogue


def _known(catalog: Catalog, task: Task) -> _Known:
    tasks = _KNOWN.setdefault(catalog, {})
    known = tasks.get(task.number)
    if known is None or known.task is not task:
        needs = task.needs
        changed = [(len(needs) + i, n.alternative.fact) for i, n in enumerate(needs) if n.alternative is not None]
        facts = [*((i, fact) for i, n in enumerate(needs) for fact in (n.fact, *n.accept)), *changed]
        tools = {name: catalog.get(name) for name in task.candidates}
        known = _Known(
            task,
            tuple([(number, normalise(fact), fact) for number, fact in facts]),
            {name: i for i, need in enumerate(needs) for name in need.tools},
            tools,
            {name: promised for name, tool in tools.items() if (promised := false_promise(tool))},
        )
        if len(tasks) >= MAX_KNOWN:
            tasks.clear()
        tasks[task.number] = known
    return known


@lru_cache(maxsize=4096)  # a text stands in many contexts of an episode, and a tool's answer in many episodes
def _facts_in(known: _Known, text: str) -> frozenset[int]:
    plain = normalise(text)
    return frozenset([number for number, short, fact in known.facts if short in plain and fact_in(fact, plain)])


class Reader:
    """Reads contexts of one episode, over the tools of the world's catalogue."""

    def __init__(self, catalog: Catalog, task: Task) -> None:
        self._plain = task.needs
        self.catalog = catalog
        self._known = known = _known(catalog, task)
        self.tools = known.tools.copy()  # those on offer by name, the task's candidates first
        self.misnamed = known.misnamed.copy()  # what the names of tools promise and their documentation denies
        self._current: tuple[Need, ...] = task.needs
        self._functions: list[Function] = []
        self._offered: tuple[dict[str, None], Function | None, Function | None] = ({}, None, None)

    def facts_in(self, text: str) -> frozenset[int]:
        """Return the numbers of the facts that a text shows."""
        return _facts_in(self._known, text)

    def facts_in_history(self, messages: Sequence[Message]) -> frozenset[int]:
        """Return the facts that results in a conversation show; the request itself shows none."""
        answers = [message for message in messages if message.role == USER][1:]
        shown = [message for message in messages if message.role == TOOL]
        return frozenset[int]().union(*(_facts_in(self._known, message.content) for message in (*answers, *shown)))

    def read(self, messages: Sequence[Message], functions: Sequence[Function], status: str = "") -> Context:
        """Read a conversation and the functions beside it; `status` is what stands at the request's end."""
        changed = self._changed(messages)
        count = len(self._plain)
        self._current = needs = (
            tuple(n.alternative if i in changed and n.alternative is not None else n for i, n in enumerate(self._plain))
            if changed
            else self._plain
        )
        names: Mapping[str, None] = {}
        costs: Mapping[str, float] = {}
        if messages and messages[0].role == SYSTEM:
            names, costs = read_system(messages[0].content)
        shown, register, search = self._offer(functions)
        if register is not None and (documented := _documented(messages)):
            shown = {**shown, **documented}
        if status:
            removed, changed_costs = read_status(status)
            shown, costs = {name: None for name in shown if name not in removed}, {**costs, **changed_costs}
        context = Context(
            shown=shown,
            names={name: None for name in names if name not in shown} if register is not None else {},
            several=register is not None and "names" in register.parameters.get("properties", {}),
            costs=costs,
            known=[],
            open=[],
            changed=changed,
            needs=needs,
            described=bool(names) and f"\n{prompts.DESCRIPTIONS}\n" in messages[0].content,
            search=search,
        )
        facts = self._attempts(messages, context)
        if messages and messages[-1].role == TOOL and messages[-1].name == context.last_failed:
            context.doubt = self._doubted(messages[-1])
        for need in range(count):
            fact = need + count if need in changed else need
            (context.known if fact in facts or needs[need].given else context.open).append(need)
        if search is not None:
            for message in messages:
                if message.role == TOOL and message.name == SEARCH:
                    self._searched(message.content, context)
        return context

    def _offer(self, functions: Sequence[Function]) -> tuple[dict[str, None], Function | None, Function | None]:
        """Return the tools shown, the function that registers and the one that searches; they rarely change between replies."""
        if functions != self._functions:
            offered = list(functions)
            names, tools = [function.name for function in offered], self.tools
            shown = {name: None for name in names if name in tools or self._offer_tool(name)}
            register = offered[names.index(REGISTER)] if REGISTER in names else None
            search = offered[names.index(SEARCH)] if SEARCH in names else None
            self._functions, self._offered = offered, (shown, register, search)
        return self._offered

    def _attempts(self, messages: Sequence[Message], context: Context) -> set[int]:
        """Take note of the calls that were made; returns the facts that results show."""
        last = messages[-1] if messages else None
        if last is not None and last.role == TOOL:
            context.after_result = last.name not in _NO_TOOLS
            if last.name == REGISTER:
                new = [name for name in context.shown if f'"{name}"' in last.content]
                context.registered = new[0] if len(new) == 1 else ""
        # One pass over the messages, because this is the hottest loop of a simulated episode: it runs for every reply.
        facts: set[int] = set()
        seen: set[int] = set()  # in results of tools
        used, failed, last_failed = context.used, context.failed, ""
        known, failures, requests = self._known, 0, 0
        for message in messages:
            if message.role == TOOL:
                shows, name = _facts_in(known, message.content), message.name
                facts |= shows
                if name not in _NO_TOOLS:
                    used[name] = None
                    if shows <= seen:
                        failed.add(name)
                        last_failed, failures = name, failures + 1
                    else:
                        seen |= shows
                        failed.discard(name)
                        last_failed, failures = "", 0
            elif message.role == USER:
                requests += 1
                if requests > 1:  # the request itself shows nothing
                    facts |= _facts_in(known, message.content)
                if message.content.startswith(prompts.TRIED):
                    failed.update([tool for tool in self.tools if f'"{tool}"' in message.content])
        context.last_failed, context.failures = last_failed, failures
        return facts

    def _doubted(self, message: Message) -> str:
        """The tool of a result, if it writes and the result leaves open whether it took effect."""
        tool = self.tools.get(message.name)
        if tool is None or tool.effect is None or tool.effect.role != WRITE:
            return ""
        try:
            document = json.loads(message.content)
        except ValueError:
            return message.name
        error = document.get("error") if isinstance(document, dict) else None
        return message.name if not isinstance(error, str) or error in _OPEN_ENDS else ""  # an answer may have such a field too

    def _searched(self, text: str, context: Context) -> None:
        try:
            document = json.loads(text)
        except ValueError:
            return
        if "category" in document:
            context.listed.add(document["category"])
        elif "found" in document and all(self.need_of(name) not in context.open for name in document["found"]):
            context.fruitless += 1

    def _offer_tool(self, name: str) -> bool:
        """Take a tool that a search found among those on offer."""
        known: object = name
        if known not in self.catalog:
            return False
        tool = self.tools[name] = self.catalog.get(name)
        if promised := false_promise(tool):
            self.misnamed[name] = promised
        return True

    def _changed(self, messages: Sequence[Message]) -> frozenset[int]:
        if len(self._known.facts) == len(self._plain):
            return frozenset()
        news = [m.content for m in messages if m.role == USER and m.content.startswith(prompts.NEWS)]
        return frozenset(
            i
            for i, need in enumerate(self._plain)
            if need.alternative is not None and any(need.alternative.wish in text for text in news)
        )

    # -- what a reader of the query and the documentation knows ----------------------------------------------------------

    def need_of(self, name: str) -> int:
        """Return the need that a tool serves, or -1."""
        return self._known.need_of.get(name, -1)

    def serving(self, need: int) -> tuple[str, ...]:
        return self._current[need].tools

    def checks(self, need: int) -> list[str]:
        """The tools on offer that tell whether what a need wants has happened."""
        wanted = self._current[need].capability
        effects = [(name, tool.effect) for name, tool in self.tools.items() if tool.effect is not None]
        return [name for name, effect in effects if effect.role == CHECK and effect.of == wanted]

    def promising(self, need: int) -> list[str]:
        """Return the tools that do not serve a need although their name says so."""
        wanted = self._current[need].capability
        return [name for name, promised in self.misnamed.items() if promised == wanted]

    def wish(self, need: int) -> str:
        return self._current[need].wish or "what was asked for"

    def capability(self, need: int) -> str:
        return (self._current[need].capability or "data").split("/")[-1].replace(" ", "_")[:40]

    def arguments(self, need: int, context: Context) -> dict[str, Any] | None:
        wanted = context.needs[need].arguments
        return None if wanted is None else dict(wanted)


def _documented(messages: Sequence[Message]) -> dict[str, None]:
    """The tools that results of registrations document, in order."""
    shown: dict[str, None] = {}
    for message in messages:
        if message.name == REGISTER and message.role == TOOL and '"documentation"' in message.content:
            shown.update(dict.fromkeys(_documented_in(message.content)))
    return shown


@lru_cache(maxsize=4096)
def _documented_in(text: str) -> tuple[str, ...]:
    document = json.loads(text)
    answers = document["registered"] if isinstance(document["registered"], list) else [document]
    return tuple(str(answer["registered"]) for answer in answers if "documentation" in answer)


@lru_cache(maxsize=1024)
def read_status(text: str) -> tuple[frozenset[str], Mapping[str, float]]:
    """Return the tools that the end of a request takes away, and the prices that it tells."""
    removed: frozenset[str] = frozenset()
    costs: Mapping[str, float] = {}
    for line in text.splitlines():
        if line.startswith(prompts.REMOVED):
            removed = frozenset(line[len(prompts.REMOVED) :].split(", "))
        elif line.startswith(prompts.COSTS):
            costs = json.loads(line[len(prompts.COSTS) :])
    return removed, costs


@lru_cache(maxsize=1024)
def read_system(text: str) -> tuple[Mapping[str, None], Mapping[str, float]]:
    """Return the tools that a system message names for registration, in order, and the prices that it tells."""
    names: dict[str, None] = {}
    costs: Mapping[str, float] = {}
    described = False
    for line in text.splitlines():
        if line.startswith(prompts.NAMES):
            names = dict.fromkeys(line[len(prompts.NAMES) :].split(", "))
        elif line.startswith(prompts.COSTS):
            costs = json.loads(line[len(prompts.COSTS) :])
        elif line == prompts.DESCRIPTIONS:
            described = True
        elif described and line.startswith("- "):
            names[line[2:].partition(":")[0]] = None
    return names, costs


def plausible(tool: Tool, near: Mapping[str, Any] | None, luck: float) -> dict[str, Any]:
    """Return the arguments that fit a schema and say something likely: the query's own values where the names agree."""
    properties = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", [])
    return {name: near[name] if near and name in near else _value(properties.get(name, {}), luck) for name in required}


def _value(schema: Any, luck: float) -> Any:
    if not isinstance(schema, Mapping):
        return "any"
    options = schema.get("enum")
    if isinstance(options, list) and options:
        return options[int(luck * len(options))]
    for key in ("default", "example"):
        if schema.get(key) not in (None, ""):
            return schema[key]
    kind = schema.get("type")
    if kind == "integer":
        return int(schema.get("minimum", 1)) + int(luck * 5)
    if kind == "number":
        return float(schema.get("minimum", 1)) + int(luck * 5)
    return {"boolean": luck < 0.5, "array": [], "object": {}}.get(str(kind), f"sample {int(luck * 100)}")


def misread(tool: Tool, arguments: Mapping[str, Any], luck: float) -> dict[str, Any]:
    """Return the arguments that fit the schema and are wrong: one of them is not what was asked for."""
    wrong = dict(arguments)
    if not wrong:
        return wrong
    name = list(wrong)[int(luck * len(wrong))]
    value = wrong[name]
    schema = tool.parameters.get("properties", {}).get(name, {})
    options = schema.get("enum") if isinstance(schema, Mapping) else None
    if isinstance(options, list) and len(options) > 1:
        wrong[name] = next(option for option in options if normalise(option) != normalise(value))
    elif isinstance(value, bool):
        wrong[name] = not value
    elif isinstance(value, int | float):
        wrong[name] = value + 1
    else:
        wrong[name] = f"{value} area"
    return wrong
