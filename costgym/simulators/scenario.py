"""A scenario defines a world: its tools, prices, failures, tasks and budget, in one model that is read from YAML.

Two scenarios with the same `digest` are the same world in every process.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, ValidationError, field_validator, model_validator

from costgym.simulators import user_code
from costgym.simulators.bounds import (
    BOUNDS,
    MAX_FACTOR,
    StrictModel,
    first_problem,
    is_empty,
    is_none,
    out_of_bounds,
    unreadable,
    within,
)
from costgym.simulators.digests import SCHEMA, canonical, digest_of, recorded_text
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import ConfigError, DataError, check_known
from costgym.simulators.failures import PRESETS, FailureModel
from costgym.simulators.files import read_yaml
from costgym.simulators.forge.folder import WorldFolder, document_of_folder, is_folder
from costgym.simulators.forge.source import ForgedSource
from costgym.simulators.ledger import RESOURCES, Budget
from costgym.simulators.marketplace.custom import CustomSource
from costgym.simulators.marketplace.market import Marketplace
from costgym.simulators.marketplace.sources import (
    FOLDERS,
    AnyToolSource,
    FolderSource,
    MarketplaceSource,
    MGToolBenchSource,
    ToolBenchSource,
    ToolDeerSource,
    WorldsSource,
)
from costgym.simulators.marketplace.writing_market import WritingSource
from costgym.simulators.one_world.source import OneWorldSource
from costgym.simulators.pricing import PRICINGS
from costgym.simulators.pricing.prompt_cache import PER_DOLLAR, USUAL, CacheRules, LongPrices, ModelPrices, in_currency
from costgym.simulators.retrieval import Retrieval, RetrievedTasks, Retriever
from costgym.simulators.stress import Stress
from costgym.simulators.tasks import Answers, Judge, Task
from costgym.simulators.tools import Tool
from costgym.simulators.world import Candidate, Enforcement, World, WorldEvent
from costgym.simulators.world.result_sizes import SizedAnswers

UNSEEN = "unseen"  # the split whose tools no other split has
SHARED_FIELDS = (
    "failures", "judge", "bill_failures", "bill_cold_start", "gateway_s", "ttft_s", "tokens_per_s", "slots", "gpu_capacity_mb",
    "max_price", "alpha",
)  # fmt: skip
"""Fields that a scenario and its world have alike."""
_OF_ONE_WORLD = ("name", "description", "seed", "source")
_PRESET_FOLDER = Path(__file__).parent / "presets"


class TokenPrices(StrictModel):
    """Prices of a model's tokens, in the scenario's currency per million tokens; the fields are those of `ModelPrices`.

    With rules of a `cache` the world counts what of each prompt is read from it; without them what is reported counts.
    """

    input: float = within("tokens")
    output: float = within("tokens")
    cached: Annotated[float, within("tokens")] | None = None
    cache_write: Annotated[float, within("tokens")] | None = Field(default=None, exclude_if=is_none)
    cache: CacheRules | None = Field(default=None, exclude_if=is_none)
    above: tuple[LongPrices, ...] = Field(default=(), max_length=16, exclude_if=is_empty)
    window: Annotated[int, within("tokens.window")] | None = Field(default=None, exclude_if=is_none)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.prices()
        return self

    def prices(self) -> ModelPrices:
        """The price list."""
        return ModelPrices(**{name: getattr(self, name) for name in type(self).model_fields})

    @classmethod
    def of(cls, prices: ModelPrices) -> "TokenPrices":
        """The part of a price list that a world charges by."""
        return cls(**{name: getattr(prices, name) for name in cls.model_fields})


class Event(StrictModel):
    """A scheduled event."""

    at_s: float = within("events.at_s")  #: simulated time of the event, seconds
    kind: Literal["price_change", "ban", "unban", "preference_change"]  #: what happens
    tools: tuple[str, ...] | None = None  #: names of the tools concerned; `category` and `share` narrow the choice further
    category: str | None = None  #: only tools of this category are concerned
    share: float = within("events.share", default=1.0)  #: only this share of the tools is concerned, chosen by their names
    factor: float = within("events.factor", default=1.0)  #: factor on the prices, for a price change
    need: int = within("events.need", default=0)  #: the need that changes, counted from the end among those that can change


class Processes(StrictModel):
    """A Python file whose generator functions run beside every episode; see `Episode.process`."""

    file: str  #: its name
    sha256: str = Field(pattern="^[0-9a-f]{64}$")  #: of its content


class Scenario(StrictModel):
    """Everything that defines a world.

    Attributes:
        name, description: Its name, and one line for lists.
        seed: Keys everything that is drawn once per world.
        source: Where tools and tasks come from.
        pricing: Flat fees (whole numbers from 1 to 10, as in BTP), or pay-per-use: by the tables of OpenCATP (`faas`,
            `faas-aws`), or by lists of 2026 (`aws-lambda-2026`, `modal-2026`; see `pricing`), which bill initialisation too.
        bill_failures, bill_cold_start: See rules 8 and 5 of `world`.
        currency: The currency's name, for display.
        tokens: Prices of the model's tokens; None where they are free.
        failures: The name of a preset, or a failure model.
        judge: Rates of the lenient judge.
        budget: Default limits.
        enforcement: What passing a limit does; see rule 11 of `world`.
        gateway_s: Time that a refusal takes, seconds.
        ttft_s, tokens_per_s: Time to the model's first token, seconds, and its speed after that.
        thinking: How long a model thinks: by its `tokens` (the same as None), or, for real models, as `measured`.
        slots: Calls of all tools together that may run at once; None for any number.
        gpu_capacity_mb: GPU memory that all tools share, MB; None for any amount.
        events: Scheduled events.
        alpha, max_price: Weight of performance, and the price that counts as a full loss, in the Quality of Plan.
        processes: A Python file with processes of one's own, in YAML its name beside the scenario's file.
        stress: Factors on failures, limits and latencies; None for the world as it is.
    """

    name: str = Field(min_length=1)
    description: str = ""
    seed: int = within("seed", default=0)
    source: (
        MarketplaceSource
        | ToolBenchSource
        | MGToolBenchSource
        | AnyToolSource
        | ToolDeerSource
        | CustomSource
        | WritingSource
        | OneWorldSource
        | ForgedSource
        | WorldsSource
    ) = Field(default_factory=MarketplaceSource, discriminator="kind")
    pricing: Literal["flat", "faas", "faas-aws", "aws-lambda-2026", "modal-2026"] = "flat"
    bill_failures: bool = True
    bill_cold_start: bool = False
    currency: str = "credits"
    tokens: TokenPrices | None = None
    failures: FailureModel = Field(default_factory=lambda: PRESETS["rapidapi-2023"])
    judge: Judge = Field(default_factory=Judge)
    budget: dict[str, float] = Field(default_factory=lambda: {"price": 20.0})
    enforcement: Enforcement = "terminate"
    gateway_s: float = within("gateway_s", default=0.05)
    ttft_s: float = within("ttft_s", default=0.5)
    tokens_per_s: float = within("tokens_per_s", default=60.0)
    thinking: Literal["tokens", "measured"] | None = Field(default=None, exclude_if=is_none)
    slots: Annotated[int, within("slots")] | None = Field(default=None, exclude_if=is_none)
    gpu_capacity_mb: Annotated[float, within("gpu_capacity_mb")] | None = None
    events: tuple[Event, ...] = Field(default=(), max_length=int(BOUNDS["events"].high))
    alpha: float = Field(default=0.5, gt=0, lt=1)
    max_price: float = within("max_price", default=100.0)
    stress: Stress | None = Field(default=None, exclude_if=is_none)
    processes: Processes | None = Field(default=None, exclude_if=is_none)
    _code: bytes | None = PrivateAttr(default=None)  # of the processes, where a file of the user's has named them

    @field_validator("failures", mode="before")
    @classmethod
    def _preset(cls, value: Any) -> Any:
        if isinstance(value, str):
            if value not in PRESETS:
                raise ValueError(f"unknown failure preset {value!r}; known: {', '.join(PRESETS)}")
            return PRESETS[value]
        return value

    @field_validator("budget")
    @classmethod
    def _limits(cls, value: dict[str, float]) -> dict[str, float]:
        for name, limit in value.items():
            if name not in RESOURCES:
                raise ValueError(f"unknown resource {name!r}; known: {', '.join(RESOURCES)}")
            if problem := out_of_bounds("budget", limit):
                raise ValueError(f"{name}: {problem}")
        return value

    @field_validator("events")
    @classmethod
    def _factors(cls, value: tuple[Event, ...]) -> tuple[Event, ...]:
        for sign in (1, -1):
            together = sum(max(0.0, sign * math.log(event.factor)) for event in value if event.kind == "price_change")
            if together > math.log(MAX_FACTOR):
                problem = f"expected price changes that together multiply or divide a price by at most {MAX_FACTOR:g}"
                raise ValueError(f"{problem}, got {math.exp(min(700.0, together)):.3g}")
        return value

    @property
    def digest(self) -> str:
        """Hash of everything that defines the world, under the present schema; recorded runs name their world by it.

        Of a folder that a scenario reads, the content counts and not the path: all tasks, all tools with their profiles, and
        what the tools' answers are made from.
        """
        return self.digest_under(SCHEMA)

    def digest_under(self, schema: int) -> str:
        """The digest under a schema of `digests`; empty for one that this version does not know."""
        if schema not in (0, SCHEMA):
            return ""
        # worlds of a folder may change while this process runs, and tables of published data do not
        digest = _digest.__wrapped__ if isinstance(self.source, WorldsSource) else _digest
        return digest(self.model_dump_json(), schema)

    @property
    def world(self) -> int:
        """The version of the world, which says what agents read and pay; see `bounds.WORLDS`."""
        return self.source.world

    def in_world(self, *versions: int) -> "Scenario":
        """The scenario in one of these versions of the world: its own where it states one, else the first.

        Raises:
            ConfigError: It states another one.
        """
        if self.world in versions:
            stated = self.world or "world" in self.source.model_fields_set
            return self if stated or versions[0] == 0 else self._moved(versions[0])
        if "world" not in self.source.model_fields_set:
            return self._moved(versions[0])
        wanted = " or ".join(map(str, versions))
        what_to_do = "choose an environment that plays it, or change `world` in its source"
        raise ConfigError(f"scenario {self.name}", f"expected version {wanted} of the world, got {self.world}; {what_to_do}")

    def _moved(self, world: int) -> "Scenario":
        return self.model_copy(update={"source": self.source.model_copy(update={"world": world})})

    def unseen(self) -> "Scenario":
        """The same kind of world with another catalogue: tools, providers, reliabilities, tasks and facts are all new.

        Raises:
            ConfigError: The scenario reads its tools, so there are no others.
        """
        if not isinstance(self.source, MarketplaceSource):
            raise ConfigError("split", f"{UNSEEN!r} needs generated tools, and the scenario {self.name} reads its own")
        return self.model_copy(update={"seed": stable_integer(self.seed, UNSEEN) >> 2})

    def token_prices(self) -> ModelPrices | None:
        """What a model's tokens cost; by default nothing, and in version 1 of the world what a present model's do."""
        if self.tokens is not None:
            return self.tokens.prices()
        per_dollar = PER_DOLLAR.get(self.currency)
        if per_dollar is None or not self.world:
            return None
        return in_currency(USUAL, per_dollar)

    def limits(self) -> Budget:
        """The default budget."""
        return Budget.from_mapping(self.budget)

    def build(self) -> World:
        """The world; built once per process for equal scenarios."""
        if self._code is not None and self.processes is not None:  # a worker has not read the file
            user_code.known[self.processes.sha256] = self._code
        return _build(self.model_dump_json())


@lru_cache(maxsize=8)
def _digest(document: str, schema: int) -> str:
    scenario = Scenario.model_validate_json(document)
    source = scenario.source
    content: list[Any] = []
    if isinstance(source, FolderSource):
        content = _content(scenario, source.data)
        nowhere = ToolBenchSource(subsets=source.subsets) if isinstance(source, ToolBenchSource) else type(source)()
        if isinstance(retrieval := getattr(source, "candidates", None), Retrieval):
            nowhere = nowhere.model_copy(update={"candidates": retrieval})
        nowhere = nowhere.model_copy(update={"world": source.world})
        scenario = scenario.model_copy(update={"source": nowhere})
    if schema == 0:
        state = hashlib.sha256(scenario.model_dump_json().encode())
        for part in content:
            state.update(part if isinstance(part, bytes) else recorded_text(part).encode("utf-8", "backslashreplace"))
        return state.hexdigest()[:16]
    # each kind of source has its kind as a default, which tells sources apart
    whole = {**canonical(scenario), "source": {"kind": source.kind, **canonical(scenario.source)}}
    return digest_of([whole, *(part.hex() if isinstance(part, bytes) else part for part in content)])


def _content(scenario: Scenario, folder: str | None) -> list[Any]:
    """What the folder of a scenario holds: a hash of the files of worlds, or splits, tasks, tools and moulds of answers."""
    if folder is None:
        return []
    if isinstance(scenario.source, WorldsSource):
        return [WorldFolder(Path(folder), parse_scenario).digest()]
    world = scenario.build()
    splits = {name: world.tasks.numbers(name) for name in world.tasks.splits}
    moulds = getattr(world.answers, "moulds", {})  # answers that are made from names alone have none
    return [splits, *world.tasks, *world.catalog, *sorted(moulds.items(), key=lambda item: item[0])]


@lru_cache(maxsize=32)  # more than a board has levels of stress, which come again for each agent
def _build(document: str) -> World:
    scenario = Scenario.model_validate_json(document)
    source = scenario.source
    if isinstance(source, FolderSource) and source.data is None:
        wanted = f"source.data: expected a {FOLDERS[source.kind]} folder; pass --data FOLDER"
        raise ConfigError(f"scenario {scenario.name}", wanted)
    if scenario.stress is not None:
        world = scenario.model_copy(update={"stress": None}).build()
        return scenario.stress.applied(world, scenario.seed)
    if isinstance(source, ToolDeerSource):
        from costgym.simulators.decision.recorded import recorded_world

        # a small market is built for its rules, prices and failures; the recorded tools and tasks replace its own
        market_of_its_own = MarketplaceSource(world=source.world, tools=60, providers=12, categories=4, train=4, test=4)
        rules = scenario.model_copy(update={"source": market_of_its_own, "events": ()})
        return recorded_world(rules.build(), scenario.seed, source.data or "")
    world = world_of(scenario, market_of(scenario))
    if isinstance(source, OneWorldSource):
        from costgym.simulators.one_world.world import with_vision_prices

        return with_vision_prices(world, scenario.currency)
    return world


def market_of(scenario: Scenario) -> Marketplace:
    """The tools, tasks and answers of a scenario's source, without its rules and prices."""
    source = scenario.source
    if isinstance(source, ForgedSource):
        from costgym.simulators.forge.market import forged_market

        return forged_market(source, scenario.seed, scenario.failures)
    assert not isinstance(source, ToolDeerSource), "its tasks are recorded, see `_build`"
    return source.market(scenario.seed, scenario.failures)


def world_of(scenario: Scenario, market: Marketplace) -> World:
    """The world of given tools, tasks and answers under a scenario's rules, prices, failures and events, without its stress."""
    pricing = PRICINGS[scenario.pricing]() if scenario.pricing != "flat" else None
    shared = {name: getattr(scenario, name) for name in SHARED_FIELDS}
    shared["bill_cold_start"] |= getattr(pricing, "bill_cold_start", False)
    retrieval = getattr(scenario.source, "candidates", None)
    bursts = scenario.failures.bursts
    for name in () if bursts is None else bursts.tools or ():
        market.catalog.number(name)  # raises where there is no such tool
    processes = () if scenario.processes is None else user_code.functions(scenario.processes.file, scenario.processes.sha256)
    retriever = Retriever(retrieval, market.catalog) if isinstance(retrieval, Retrieval) else None
    return World(
        catalog=market.catalog,
        tasks=market.tasks if retriever is None else RetrievedTasks(market.tasks, retriever),
        retriever=retriever,
        answers=_answers(scenario, market),
        version=scenario.world,
        processes=processes,
        faas=pricing,
        tokens=scenario.token_prices(),
        measured_thinking=scenario.thinking == "measured",
        events=Timetable(scenario.seed, scenario.events, market.catalog) if scenario.events else None,
        **shared,
    )


def _answers(scenario: Scenario, market: Marketplace) -> Answers:
    """The answers of a scenario's tools; in version 1 of the world they are as long as in life."""
    if not scenario.world:
        return market.answers
    return SizedAnswers(market.answers, scenario.seed, isinstance(scenario.source, MarketplaceSource | WritingSource))


class Timetable:
    """Schedules a scenario's events for a task. Which tools an event concerns depends on their keys alone."""

    def __init__(self, seed: int, events: Sequence[Event], tools: Iterable[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        for event in events:
            for name in event.tools or ():
                check_known("tool", name, self._tools)
        self._seed, self._events = seed, events

    def __call__(self, task: Task, slots: Sequence[Candidate]) -> list[WorldEvent]:
        notices = []
        for number, event in enumerate(self._events):
            if event.kind == "preference_change":
                changing = [index for index, need in enumerate(task.needs) if need.alternative is not None]
                if len(changing) > event.need:
                    notices.append(WorldEvent(event.at_s, event.kind, need=changing[-1 - event.need]))
                continue
            hit = tuple(slot.index for slot in slots if self._hits(number, event, slot.name))
            if hit:
                notices.append(WorldEvent(event.at_s, event.kind, hit, event.factor))
        return notices

    def _hits(self, number: int, event: Event, name: str) -> bool:
        if event.tools is not None and name not in event.tools:
            return False
        if event.category is not None and self._tools[name].category != event.category:
            return False
        return event.share >= 1.0 or stable_integer(self._seed, "event", number, self._tools[name].key) / 2**64 < event.share


def scenario_names() -> list[str]:
    """Names of the scenarios that come with the package."""
    return sorted(path.stem for path in _PRESET_FOLDER.glob("*.yaml"))


def load_scenario(name_or_file: str | Path, data: str | Path | None = None) -> Scenario:
    """Load a scenario by its name, or from a YAML file.

    Args:
        name_or_file: One of `scenario_names()`, a path that ends in .yaml or .yml, or FOLDER/SPLIT/NUMBER of forged worlds;
            FOLDER/SPLIT stands for all of them, see `worlds_of`.
        data: The folder, for a scenario that reads one.

    Raises:
        UnknownName: There is no such scenario.
        DataError: The file is missing, is not YAML, or has an unknown key or a wrong type; names the place.
        ConfigError: A folder is given to a scenario that reads none.
    """
    return _load(name_or_file, data, trusted=True)


def _load(name_or_file: str | Path, data: str | Path | None, trusted: bool) -> Scenario:
    """`load_scenario`; only a file that the user has named is `trusted` to name code."""
    path = Path(name_or_file)
    if (forged := document_of_folder(path)) is not None:
        return parse_scenario(forged, path)
    if is_folder(path):
        worlds = WorldFolder(path, parse_scenario)
        stated = {"world": worlds[0].world} if worlds[0].world else {}
        about = {"name": path.resolve().name, "description": f"{len(worlds)} forged worlds.", "seed": 0}
        return worlds[0].model_copy(update={**about, "source": WorldsSource(data=str(path.resolve()), **stated)})
    if path.suffix not in (".yaml", ".yml"):
        path = _PRESET_FOLDER / f"{name_or_file}.yaml"
        check_known("scenario", str(name_or_file), scenario_names())
    document = read_yaml(path)
    if not isinstance(document, dict):
        raise DataError(path, f"expected a mapping of settings, got {type(document).__name__}")
    if problem := unreadable(document):
        raise DataError(path, problem)
    document.setdefault("name", path.stem)
    try:
        document = extended(document, path)
    except RecursionError:
        raise DataError(path, "extends itself through other scenarios", "extends") from None
    if data is not None:
        source = document.get("source")
        if not isinstance(source, dict) or source.get("kind") not in FOLDERS:
            kinds = ", ".join(FOLDERS)
            raise ConfigError("--data", f"the scenario {document['name']!r} reads no folder; choose one of kind {kinds}")
        document["source"] = {**source, "data": str(data)}
    if isinstance(name := document.get("processes"), str):
        if not trusted:
            raise DataError(path, "expected no code in what a record extends", "processes")
        document["processes"] = user_code.read(path.parent / name)
    scenario = parse_scenario(document, path)
    if scenario.processes is not None:
        scenario._code = user_code.known.get(scenario.processes.sha256)
    return scenario


def extended(document: dict[str, Any], path: Path | None = None) -> dict[str, Any]:
    """A document with what it does not say itself taken from the scenario that it ``extends``, which may extend another.

    Mappings such as `source` are completed key by key, unless they are of another kind; lists and everything else are replaced.
    Names of files count from the file `path`. Raises UnknownName or DataError where the other cannot be read.
    """
    if "extends" not in document:
        return document
    document = dict(document)
    other = Path(str(document.pop("extends")))
    if other.suffix in (".yaml", ".yml") and path is not None:
        other = path.parent / other
        if other.resolve() == path.resolve():
            raise DataError(path, "a scenario cannot extend itself", "extends")
    try:
        base = _load(other, None, trusted=path is not None).model_dump(mode="json")
    except RecursionError:
        raise DataError(path or "scenario", "scenarios extend each other in a circle", "extends") from None
    base.pop("name")
    return _completed(document, base)


def _completed(document: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    extended_document = {**base, **document}
    for key, value in document.items():
        under = base.get(key)
        if isinstance(value, dict) and isinstance(under, dict) and value.get("kind", under.get("kind")) == under.get("kind"):
            extended_document[key] = _completed(value, under)
    return extended_document


def worlds_of(scenario: Scenario) -> WorldFolder[Scenario] | None:
    """The worlds of a folder under a scenario's rules; None for a scenario that is one world. Raises DataError, ConfigError.

    What the scenario says otherwise than the folder's first world, such as prices of tokens or stress, holds in every world.
    """
    if not isinstance(scenario.source, WorldsSource):
        return None
    if scenario.source.data is None:
        scenario.build()  # says what is missing
    folder = Path(scenario.source.data or "")
    first = WorldFolder(folder, parse_scenario)[0]
    others = {name: getattr(scenario, name) for name in Scenario.model_fields if name not in _OF_ONE_WORLD}
    rules = {name: rule for name, rule in others.items() if rule != getattr(first, name)}
    return WorldFolder(folder, partial(_under, rules, scenario.world))


def _under(rules: dict[str, Any], world: int, document: dict[str, Any], path: object) -> Scenario:
    return parse_scenario(document, path).model_copy(update=rules).in_world(world)


def parse_scenario(document: dict[str, Any], path: object = "scenario") -> Scenario:
    """Make a scenario from plain data; raises DataError, which names the key at fault."""
    if not isinstance(document, dict):
        raise DataError(path, f"expected the settings of a scenario by name, got {type(document).__name__}")
    try:
        return Scenario.model_validate(extended(document))
    except ValidationError as error:
        where, problem = first_problem(error)
        raise DataError(path, problem, where) from None
