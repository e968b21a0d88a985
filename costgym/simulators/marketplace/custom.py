"""A user's own tools and tasks, written out in a scenario's YAML.

Tools of one capability can replace each other. Their answers follow from the tasks: every need says which fact a capability
gives for which arguments. For arguments that no task mentions, a tool has no answer.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, StringConstraints

from costgym.simulators.bounds import StrictModel, is_none, within
from costgym.simulators.errors import DataError, InvalidProfile, UnknownName, check_known
from costgym.simulators.grading.facts import fact_of
from costgym.simulators.marketplace.market import Marketplace, Source
from costgym.simulators.tasks import Need, Task, TaskSet, arguments_match, normalise
from costgym.simulators.tools import CHECK, KEY, UNDO, WRITE, Catalog, Effect, Tool, ToolProfile
from costgym.simulators.world.writes import about

_PLACE = re.compile(r"\{(\d+)\}")
Finite = Annotated[float, Field(allow_inf_nan=False)]
Scalar = str | int | Finite | bool
Name = Annotated[str, Field(min_length=1)]
Fact = Annotated[str, StringConstraints(pattern=r"\S")]


class CustomTool(StrictModel):
    """A tool that the user describes."""

    name: Name  # the function name that a model calls; unique
    capability: str = ""  # what the tool gives; needs ask for it. By default the tool's name.
    # description, category, provider: text for the documentation
    description: str = ""
    category: Name = "Tools"
    provider: Name = "Own"
    # type of each argument (string, integer, number or boolean); all are required
    parameters: dict[str, Literal["string", "integer", "number", "boolean"]] = Field(default_factory=dict)
    input_schema: dict[str, Any] | None = Field(default=None, exclude_if=is_none)  # JSON schema, in place of `parameters`
    # its calls make an effect; tasks that need its capability want that effect to be there once
    writes: bool | None = Field(default=None, exclude_if=is_none)
    checks: str | None = Field(default=None, exclude_if=is_none)  # the capability whose effects it tells of
    compensates: str | None = Field(default=None, exclude_if=is_none)  # the capability whose effects it takes back
    # a tool that writes takes an `idempotency_key`: the second effect of the same key is none
    idempotent: bool | None = Field(default=None, exclude_if=is_none)
    settles_s: Finite | None = Field(default=None, exclude_if=is_none)  # seconds until other tools see an effect that it made
    # chance that a call of it which ended ambiguously, such as by a time-out, has taken effect; 0.5 by default
    happens: Finite | None = Field(default=None, exclude_if=is_none)
    # fields of `ToolProfile`, such as fee, latency_s and reliability. Other fields have its defaults, except that the
    # advertised figures are the true ones.
    profile: dict[str, Finite | int | tuple[Finite, ...]] = Field(default_factory=dict)

    def effect(self, path: str, written: Collection[str]) -> Effect | None:
        """What its calls do to the world; `place` is the tool's in the file, `written` what capabilities some tool writes."""
        roles = {WRITE: self.capability or self.name if self.writes else None, CHECK: self.checks, UNDO: self.compensates}
        stated = [(role, of) for role, of in roles.items() if of is not None]
        if len(stated) > 1:
            raise DataError("scenario", "a tool either `writes`, `checks` or `compensates`; make one tool of each", path)
        if not stated:
            for name in ("idempotent", "settles_s", "happens"):
                if getattr(self, name) is not None:
                    raise DataError(
                        "scenario", "expected `writes: true` beside it; only a tool that writes has it", f"{path}.{name}"
                    )
            return None
        role, of = stated[0]
        if of not in written:
            known = ", ".join(sorted(written)) or "none; give the tool that makes it `writes: true`"
            raise DataError("scenario", f"no tool writes {of!r}; capabilities that are written: {known}", path)
        try:
            settles, happens = self.settles_s or 0.0, 0.5 if self.happens is None else self.happens
            return Effect(role, of, bool(self.idempotent), settles, happens)
        except InvalidProfile as error:
            raise DataError("scenario", str(error), path) from error


class CustomAlternative(StrictModel):
    """Another way to serve a need: tools of another capability, which give another fact for the same arguments."""

    capability: Name
    fact: Fact


class CustomNeed(StrictModel):
    """A fact that an answer must hold."""

    capability: Name  # capability of the tools that give the fact
    fact: Fact  # the text that is looked for in the answer
    # the right arguments; "{0}" stands for the fact of the task's first need, which must be found before
    arguments: dict[str, Scalar] = Field(default_factory=dict)
    wish: str = ""  # the need in words; by default the capability and its arguments
    # type of the fact: "number", "date", "time", "moment", "identifier", "name", "text", or "words" for a text that must stand
    # in the answer as it is written here. By default what its writing shows.
    type: Literal["number", "date", "time", "moment", "identifier", "name", "text", "words"] | None = Field(
        default=None, exclude_if=is_none
    )
    # of a number, the difference at which it still counts
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(default=None, exclude_if=is_none)
    # other facts that an answer may state in its place
    accept: tuple[Fact, ...] | None = Field(default=None, exclude_if=is_none)
    # other capabilities that serve the need as well, such as a train for a flight, each with the fact that its tools give for
    # the same arguments. Any one of them is enough.
    alternatives: tuple[CustomAlternative, ...] | None = Field(default=None, exclude_if=is_none)
    # what its tools answer, word for word; it holds the fact. By default the arguments and the fact.
    result: Name | None = Field(default=None, exclude_if=is_none)
    # the answer must state the fact. By default it must, unless another need of the task uses it as an argument.
    asked: bool | None = Field(default=None, exclude_if=is_none)
    optional: bool | None = Field(default=None, exclude_if=is_none)
    # of a capability that is written, what the effect is worth: what is lost where it is there twice
    amount: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(default=None, exclude_if=is_none)


class CustomTask(StrictModel):
    """A query and what its answer must hold."""

    query: Name
    needs: tuple[CustomNeed, ...] = Field(min_length=1)  # the facts wanted
    tools: tuple[str, ...] | None = None  # names of the tools on offer; by default all
    split: Literal["train", "test"] | None = None  # "train" or "test"; by default the task is in both
    size_level: int = within("source.tasks.size_level", default=0)  # size level of the input, 0 to 3


class CustomSource(Source):
    """Tools and tasks that the scenario itself lists."""

    kind: Literal["own"] = "own"
    tools: tuple[CustomTool, ...] = Field(min_length=1)
    tasks: tuple[CustomTask, ...] = Field(min_length=1)

    def market(self, seed: int, failures: object) -> Marketplace:
        """The listed tools, tasks and answers; nothing is drawn. Raises DataError, which says what does not fit together."""
        del seed, failures
        written = {tool.capability or tool.name for tool in self.tools if tool.writes}
        catalog = Catalog((_tool(tool, f"source.tools.{i}", written) for i, tool in enumerate(self.tools)), "source.tools")
        # a task of both splits is one task in two lists: it meets the same luck in both
        tasks = [_task(task, number, catalog) for number, task in enumerate(self.tasks)]
        splits = {
            name: [number for number, task in enumerate(self.tasks) if task.split in (None, name)] for name in ("train", "test")
        }
        for name, numbers in splits.items():
            if not numbers:
                raise DataError("source.tasks", f"no task is in the split {name!r}; leave `split` out where a task serves both")
        return Marketplace(catalog, TaskSet(tasks, splits), CustomAnswers(tasks, self.tasks))


def _tool(tool: CustomTool, path: str, written: Collection[str]) -> Tool:
    known = {spec.name for spec in fields(ToolProfile)}
    for name in tool.profile:
        check_known(f"setting of {path}.profile", name, known)
    settings: dict[str, Any] = dict(tool.profile)
    for name in ("concurrency", "rate_limit", "quota"):
        if name in settings and (not isinstance(settings[name], int) or isinstance(settings[name], bool)):
            raise DataError("scenario", f"expected a whole number, got {settings[name]!r}", f"{path}.profile.{name}")
    latency = settings.get("latency_s", 1.0)
    settings["latency_s"] = latency if isinstance(latency, tuple) else (float(latency),)
    settings.setdefault("advertised_success", settings.get("reliability", 1.0))
    settings.setdefault("advertised_latency_s", settings["latency_s"][0] if settings["latency_s"] else 1.0)
    try:
        profile = ToolProfile(**settings)
    except InvalidProfile as error:
        raise DataError("scenario", str(error), f"{path}.profile") from error
    schema = {name: {"type": form, "description": name.replace("_", " ")} for name, form in tool.parameters.items()}
    effect, required = tool.effect(path, written), list(schema)
    if tool.input_schema is not None:
        schema, required = dict(tool.input_schema.get("properties", {})), list(tool.input_schema.get("required", ()))
    if effect is not None and effect.idempotent:
        schema[KEY] = {"type": "string", "description": "a key of your choice; a repeat with the same key has no second effect"}
    return Tool(
        name=tool.name,
        description=tool.description or f"Gives {tool.capability or tool.name}.",
        category=tool.category,
        provider=tool.provider,
        title=tool.name,
        parameters={"type": "object", "properties": schema, "required": required},
        profile=profile,
        capability=tool.capability or tool.name,
        effect=effect,
    )


def _task(task: CustomTask, number: int, catalog: Catalog) -> Task:
    path = f"source.tasks.{number}"
    names = task.tools if task.tools is not None else tuple(tool.name for tool in catalog)
    if len(set(names)) < len(names):
        raise DataError("scenario", f"expected each tool once, got {list(names)!r:.200}", f"{path}.tools")
    offered = [catalog.get(name) for name in names]
    # those that find facts or make effects, rather than check them or take them back
    giving = [tool for tool in offered if tool.effect is None or tool.effect.role == WRITE]
    needs: list[Need] = []
    for index, need in enumerate(task.needs):
        others = need.alternatives or ()
        served = (need.capability, *(other.capability for other in others))
        for capability in served:
            if not any(tool.capability == capability for tool in giving):
                known = sorted({tool.capability for tool in offered})
                raise UnknownName(f"capability of {path}.needs.{index} among the tools on offer", capability, known)
        serving = [tool for tool in giving if tool.capability in served]
        arguments, after = _filled(need.arguments, needs, f"{path}.needs.{index}.arguments")
        spoken = ", ".join(f"{name} {value}" for name, value in arguments.items())
        wish = need.wish or f"{need.capability.replace('_', ' ')}{f' of {spoken}' if spoken else ''}"
        writing = [tool.effect is not None for tool in serving]
        state = any(writing)
        if state and not all(writing):
            problem = f"only some of the tools of {need.capability!r} write; give the others a capability of their own"
            raise DataError("scenario", problem, f"{path}.needs.{index}")
        used = any(f"{{{index}}}" == value for other in task.needs for value in other.arguments.values())
        if others and (state or used):
            problem = "a need with alternatives has several possible facts, so it can neither write nor give an argument"
            raise DataError("scenario", problem, f"{path}.needs.{index}.alternatives")
        try:
            if need.type:
                fact_of(need.fact, need.type)
        except ValueError as error:
            raise DataError("scenario", str(error), f"{path}.needs.{index}.fact") from None
        if any(other.capability == need.capability and other.arguments == arguments for other in needs):
            raise DataError("scenario", "an earlier need asks for the same with the same arguments", f"{path}.needs.{index}")
        needs.append(
            Need(
                fact=need.fact,
                tools=tuple(tool.name for tool in serving),
                arguments=arguments,
                after=after,
                wish=wish,
                capability=need.capability,
                fact_type=need.type or "",
                tolerance=need.tolerance or 0.0,
                accept=(*(need.accept or ()), *(other.fact for other in others)),
                asked=not (used or state) if need.asked is None else need.asked,
                state=state,
                amount=need.amount or 0.0,
                optional=bool(need.optional),
            )
        )
    if not any(need.required for need in needs):
        raise DataError("scenario", "expected at least one need that is asked for and not optional", f"{path}.needs")
    texts = dict.fromkeys(("statement", "category", "tool", "api", "hybrid"), task.query)
    return Task(f"own-{number:05d}", number, task.query, tuple(needs), tuple(names), "", texts, task.size_level)


def _filled(arguments: Mapping[str, Scalar], needs: list[Need], path: str) -> tuple[dict[str, Scalar], tuple[int, ...]]:
    """Put the facts that the arguments refer to into them; returns the arguments and the needs that the facts come from."""
    filled: dict[str, Scalar] = {}
    after: set[int] = set()
    for name, value in arguments.items():
        if isinstance(value, str) and (match := _PLACE.fullmatch(value)):
            index = int(match[1])
            if index >= len(needs):
                raise DataError(
                    "scenario", f"expected the number of an earlier need (0 to {len(needs) - 1}), got {value!r}", path
                )
            after.add(index)
            value = needs[index].fact
        filled[name] = value
    return filled, tuple(sorted(after))


class CustomAnswers:
    """The facts of all needs by capability and arguments, those of the task at hand first; raises DataError where two that are
    not recorded differ for the same arguments."""

    def __init__(self, tasks: list[Task], written: tuple[CustomTask, ...]) -> None:
        self._facts: dict[str, list[Known]] = {}
        self._task_facts: dict[tuple[str, str], list[Known]] = {}  # by task and capability
        self._states: dict[str, list[Need]] = {}
        # answers are looked up by capability and arguments alone, so two facts for the same arguments could not be told apart
        seen: dict[tuple[str, str], str] = {}
        for task, source in zip(tasks, written, strict=True):
            for need, listed in zip(task.needs, source.needs, strict=True):
                arguments = dict(need.arguments or {})
                others = [(other.capability, other.fact) for other in listed.alternatives or ()]
                for capability, fact in ((need.capability, need.fact), *others):
                    earlier = fact if listed.result else seen.setdefault((capability, normalise(arguments)), fact)
                    if earlier != fact:
                        problem = f"{capability} gives {earlier!r} in one task and {fact!r} in {task.id}; the same "
                        raise DataError("source.tasks", f"{problem}arguments must give the same fact")
                    known = Known(arguments, fact, listed.result or "")
                    self._facts.setdefault(capability, []).append(known)
                    self._task_facts.setdefault((task.id, capability), []).append(known)
                if need.state:
                    self._states.setdefault(need.capability, []).append(need)
        for facts in (*self._facts.values(), *self._task_facts.values()):
            facts.sort(key=lambda known: -len(known.arguments))  # needs with the most arguments match most closely

    def answer(self, tool: Tool, arguments: Mapping[str, Any], task: Task) -> str | None:
        """The answer as JSON text, or None where no task mentions these arguments."""
        if tool.effect is not None and tool.effect.role != WRITE:
            needs = (need for need in self._states.get(tool.effect.of, ()) if about(need, arguments))
            return next((json.dumps({tool.effect.of: need.fact}, ensure_ascii=False) for need in needs), None)
        for known in (*self._task_facts.get((task.id, tool.capability), ()), *self._facts.get(tool.capability, ())):
            if arguments_match(arguments, known.arguments):
                return self._write(tool, known)
        return None

    def irrelevant(self, tool: Tool, arguments: Mapping[str, Any], task: Task, luck: float) -> str:
        """The answer for other arguments of the same capability, or a bare acknowledgement where there are none."""
        wanted = {fact for need in task.needs for fact in (need.fact, *need.accept)}
        others = [known for known in self._facts.get(tool.capability, ()) if known.fact not in wanted]
        if not others:
            return json.dumps({"status": "ok"})
        return self._write(tool, others[int(luck * len(others))])

    @staticmethod
    def _write(tool: Tool, known: "Known") -> str:
        return known.result or json.dumps({**known.arguments, tool.capability: known.fact}, ensure_ascii=False)


class Known(NamedTuple):
    """What a capability gives for some arguments; `result` is what its tools answer, word for word, where it is recorded."""

    arguments: Mapping[str, Any]
    fact: str
    result: str
