"""Scenarios of the kind `forged`: tools, entities and the flow of ids between them, as `costgym forge` writes them.

A forged world is data that a person can read and edit: which operation gives which facts, in which words, and what its
arguments are. Tasks, facts and answers follow from it and the scenario's seed.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from costgym.simulators.bounds import StrictModel, is_none, within
from costgym.simulators.errors import DataError, InvalidProfile, UnknownName, check_known
from costgym.simulators.failures import FailureModel
from costgym.simulators.forge.values import FORMS, put_value
from costgym.simulators.marketplace.catalogue import draw_profile
from costgym.simulators.marketplace.market import Source
from costgym.simulators.tools import CHECK, KEY, UNDO, WRITE, Catalog, Effect, Tool, ToolProfile

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Words = Annotated[str, StringConstraints(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9][A-Za-z0-9 -]*$")]
Key = Annotated[str, StringConstraints(max_length=80, pattern=r"^[a-z0-9_]*$")]
KEY_SCHEMA = {"type": "string", "description": "a key of your choice; a repeat with the same key has no second effect"}
Scalar = str | int | Annotated[float, Field(allow_inf_nan=False)] | bool


class ValueForm(StrictModel):
    """A form of values, such as a date or an amount.

    Attributes:
        form: Its name; see `values.FORMS`.
        of: Choices of an enumeration.
        low, high: Range of a number.
        example: A text whose shape the values have.
    """

    form: str
    of: tuple[Scalar, ...] = Field(default=(), exclude_if=lambda value: not value)
    low: float | None = Field(default=None, ge=-(2**53), le=2**53, exclude_if=is_none)
    high: float | None = Field(default=None, ge=-(2**53), le=2**53, exclude_if=is_none)
    example: Annotated[str, StringConstraints(max_length=60)] = Field(default="", exclude_if=lambda value: not value)

    @field_validator("form")
    @classmethod
    def _known(cls, form: str) -> str:
        if form not in FORMS:
            raise ValueError(f"unknown form of values {form!r:.60}; known: {', '.join(sorted(FORMS))}")
        return form

    @model_validator(mode="after")
    def _complete(self) -> "ValueForm":
        needed = {"enum": ("of",), "integer": ("low", "high"), "like": ("example",)}.get(self.form, ())
        missing = [name for name in needed if getattr(self, name) in (None, (), "")]
        if missing:
            raise ValueError(f"the form {self.form!r} needs {' and '.join(missing)}")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"expected low to be at most high, got {self.low:g} and {self.high:g}")
        return self

    def spec(self) -> dict[str, Any]:
        """The form as `values.draw` takes it."""
        return {key: value for key, value in self if value not in (None, (), "")}


class ForgedEntity(StrictModel):
    """A kind of thing that tools know.

    Attributes:
        noun: What a person calls it.
        id: The form of its ids.
        known_as: What a person knows it by, such as "name"; "" where they have to give its id.
        known: The form of that.
        key: Last word of the names of its ids; where it is not "id", people know the thing by its id, such as a username.
    """

    noun: Words
    id: ValueForm
    key: str = Field(default="id", max_length=80, exclude_if=lambda value: value == "id")
    known_as: str = Field(default="", max_length=80)
    known: ValueForm | None = None


class ForgedArgument(StrictModel):
    """An argument that a call must have: the id of an entity, or a value.

    Attributes:
        name: The parameter.
        path: Where the value stands in a parameter that is an object or a list: names, and "[]" for the only item of a list.
        entity: The entity whose id it is; "" for a value.
        value: The form of a value.
        words: The words for it in a query.
        number: The parameter takes a number.
        changes: It is what a change gives a thing.
    """

    name: Name
    entity: Key = ""
    value: ValueForm | None = None
    words: Words
    number: bool = False
    changes: bool = Field(default=False, exclude_if=lambda value: not value)
    path: tuple[Name, ...] = Field(default=(), max_length=4, exclude_if=lambda value: not value)

    def put(self, arguments: dict[str, Any], value: Any) -> None:
        """Set the value among the arguments of a call."""
        put_value(arguments, (self.name, *self.path), 0, value)

    def of(self, arguments: Mapping[str, Any]) -> Any:
        """The value among the arguments of a call; None where it is not there, or a list has more items than one."""
        value: Any = arguments.get(self.name)
        for step in self.path:
            if step == "[]":
                value = value[0] if isinstance(value, list) and len(value) == 1 else None
            else:
                value = value.get(step) if isinstance(value, Mapping) else None
        return value


class ForgedFact(StrictModel):
    """A fact that a response holds.

    Attributes:
        path: Names that lead to it in the response; "[]" for the items of a list.
        words: The words for it in a query.
        value: The form of its values.
        entity: The entity whose id it is; "" for others.
        shown: The response holds it, and nobody asks for it.
    """

    path: tuple[Name, ...] = Field(min_length=1, max_length=8)
    words: Words
    value: ValueForm | None = None
    entity: Key = ""
    shown: bool = Field(default=False, exclude_if=lambda value: not value)


class ForgedCapability(StrictModel):
    """Something that tools can read or change.

    Attributes:
        name: Its name, unique.
        role: "record" for one record, "list" for a list of entities; or what a write does (see `verbs`).
        verb: The verb of a write, such as "cancel".
        entity: The entity that the record or the items are.
        noun: The words for it.
        arguments: Arguments that a call must have.
        facts: Facts that a response holds.
    """

    name: Name
    role: Literal["record", "list", "create", "change", "remove", "act"]
    entity: Key
    noun: Words
    arguments: tuple[ForgedArgument, ...] = Field(default=(), max_length=8)
    facts: tuple[ForgedFact, ...] = Field(max_length=20)
    verb: str = Field(default="", max_length=40, pattern="^[a-z]*$", exclude_if=lambda value: not value)

    @property
    def writes(self) -> bool:
        return self.role not in ("record", "list")

    @model_validator(mode="after")
    def _complete(self) -> "ForgedCapability":
        if not self.writes and not self.facts:
            raise ValueError("expected at least one fact, got none")
        if self.writes != bool(self.verb):
            raise ValueError("expected a verb for what writes, and only for that")
        return self


class ForgedTool(StrictModel):
    """A tool of a forged world.

    Attributes:
        name: The function name that a model calls; unique.
        capability: What it reads; "" for a tool that writes.
        description, category, provider, title: Its documentation.
        parameters: JSON schema of its arguments.
        writes: It changes something. A tool that writes without a capability is kept, and not on offer.
        checks: The capability whose effects it tells of.
        compensates: The capability whose effects it takes back.
        idempotent: "key" where a repeat with the same idempotency key changes nothing, "always" where any repeat does not.
        statuses: HTTP statuses of the errors that its document declares.
        rival: "" for the document's own operation; "mirror" for the same operation through a reseller.
        profile: Fields of `ToolProfile` that are not drawn.
    """

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    capability: str = Field(default="", max_length=200)
    description: str = Field(max_length=2_000)
    category: Name
    provider: Name
    title: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)
    writes: bool = False
    statuses: tuple[Annotated[int, Field(ge=400, le=599)], ...] = ()
    rival: Literal["", "mirror"] = ""
    profile: dict[str, Any] = Field(default_factory=dict)
    checks: str = Field(default="", max_length=200, exclude_if=lambda value: not value)
    compensates: str = Field(default="", max_length=200, exclude_if=lambda value: not value)
    idempotent: Literal["", "key", "always"] = Field(default="", exclude_if=lambda value: not value)

    def effect(self) -> Effect | None:
        """What its calls do to the world."""
        if self.checks:
            return Effect(CHECK, self.checks)
        if self.compensates:
            return Effect(UNDO, self.compensates)
        if not self.writes:
            return None
        return Effect(WRITE, self.capability, bool(self.idempotent), by_arguments=self.idempotent == "always")


class ForgedDocument(StrictModel):
    """A document that a world was made from: its name, title and digest."""

    name: str
    title: str
    digest: str
    kind: str


class ForgedSource(Source):
    """Tools and data flow that were read from real specifications.

    Attributes:
        documents: What they were read from.
        entities: The kinds of things that tools know, by key.
        capabilities: What can be read.
        tools: The tools.
        train, test: Number of tasks in each split.
        candidates: Number of tools on offer in a task.
        chain_share: Share of the tasks with several needs in which one call's answer is another's argument, where ids flow.
        needs: Lowest and highest number of needs of a task.
        version: How tasks are composed: 0 for worlds made before tasks wrote, 1 for others.
    """

    kind: Literal["forged"] = "forged"
    documents: tuple[ForgedDocument, ...] = ()
    entities: dict[Key, ForgedEntity] = Field(default_factory=dict)
    capabilities: tuple[ForgedCapability, ...] = Field(min_length=1)
    tools: tuple[ForgedTool, ...] = Field(min_length=1)
    train: int = within("source.tasks", default=400)
    test: int = within("source.tasks", default=400)
    candidates: int = within("source.candidates", default=16)
    chain_share: float = within("source.chain_share", default=0.6)
    needs: tuple[int, int] = (1, 6)
    version: Literal[0, 1] = Field(default=0, exclude_if=lambda value: not value)

    @field_validator("needs")
    @classmethod
    def _needs(cls, needs: tuple[int, int]) -> tuple[int, int]:
        if not 1 <= needs[0] <= needs[1] <= 6:
            raise ValueError(f"expected the lowest and the highest number of needs, 1 to 6, got {needs}")
        return needs

    def catalog(self, seed: int, failures: FailureModel) -> Catalog:
        """The tools of this source; raises DataError where two tools or capabilities share a name, a profile is wrong, or a
        part refers to one that is not there."""
        self._check()
        read = [tool for tool in self.tools if tool.capability or tool.checks or tool.compensates]
        limited = any(429 in tool.statuses for tool in read)
        tools = [self._tool(tool, f"source.tools.{n}", seed, failures, limited) for n, tool in enumerate(read)]
        return Catalog(tools, "source.tools")

    def _check(self) -> None:
        names = [capability.name for capability in self.capabilities]
        if len(set(names)) < len(names):
            raise DataError("source.capabilities", "two capabilities share a name")
        offered = {tool.capability for tool in self.tools if tool.capability}
        offered |= {of for tool in self.tools for of in (tool.checks, tool.compensates) if of}
        for name in names:
            if name not in offered:
                raise DataError("source.capabilities", f"no tool reads {name!r:.100}")
        for name in sorted(offered):
            check_known("capability of source.tools", name, names)
        for capability in self.capabilities:
            parts: tuple[ForgedArgument | ForgedFact, ...] = (*capability.arguments, *capability.facts)
            for part in parts:
                if part.entity and part.entity not in self.entities:
                    raise UnknownName(f"entity of {capability.name}", part.entity, self.entities)
                if not part.entity and part.value is None:
                    raise DataError("source.capabilities", f"{capability.name}: expected an entity or a value, got neither")
            if capability.role == "list" and capability.entity not in self.entities:
                raise UnknownName(f"entity of {capability.name}", capability.entity, self.entities)

    def _tool(self, tool: ForgedTool, location: str, seed: int, failures: FailureModel, limited: bool) -> Tool:
        known = {spec.name for spec in fields(ToolProfile)}
        settings: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in tool.profile.items()
        }
        if isinstance(settings.get("latency_s"), int | float):
            settings["latency_s"] = (float(settings["latency_s"]),)
        if settings.get("latency_s"):
            settings.setdefault("advertised_latency_s", settings["latency_s"][0])
        if "reliability" in settings:
            settings.setdefault("advertised_success", settings["reliability"])
        for name in settings:
            check_known(f"setting of {location}.profile", name, known)
        if limited:  # the documents say which tools have rate limits
            failures = failures.model_copy(update={"rate_limited_share": float(429 in tool.statuses)})
        drawn = draw_profile(seed, tool.name, failures)
        try:
            profile = replace(drawn, **settings)
        except (InvalidProfile, TypeError) as error:
            raise DataError("scenario", str(error), f"{location}.profile") from error
        parameters = tool.parameters or {"type": "object", "properties": {}, "required": []}
        if tool.idempotent == "key":
            parameters = {**parameters, "properties": {**parameters.get("properties", {}), KEY: KEY_SCHEMA}}
        about = tool.name, tool.description, tool.category, tool.provider, tool.title or tool.name
        capability = tool.capability or tool.checks or tool.compensates
        return Tool(*about, parameters, profile, capability, effect=tool.effect())
