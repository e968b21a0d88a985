"""Samples of DEER's decisions: whether a query needs a tool, and whether one of the candidates fits.

A sample is a query with candidate tools. Three kinds: `NoSearch` can be answered right away; `NoCall` needs a tool, but none of
the candidates fits; `Call` needs one of them. The samples are tasks over a marketplace's tools, so prices, times, failures
and ledgers are the marketplace's own. What is graded is the decision: a right call that fails was the right decision.

Source: DEER (arXiv 2402.16696), Section 3.1 and Table 2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import Field, field_validator

from costgym.simulators.bounds import StrictModel
from costgym.simulators.decision.conversation import general_query, reword, tool_query
from costgym.simulators.decision.toolsets import MIXTURE, RANDOM, CandidateSampler, mixture_cycle
from costgym.simulators.draws import stable_generator
from costgym.simulators.errors import ConfigError
from costgym.simulators.marketplace.answers import GeneratedAnswers
from costgym.simulators.marketplace.tasks import LazyTaskSet, Luck
from costgym.simulators.marketplace.vocabulary import vocabulary
from costgym.simulators.tasks import Judge, Need, Task
from costgym.simulators.tools import Catalog, Tool
from costgym.simulators.world import World

if TYPE_CHECKING:
    from costgym.simulators.marketplace.tasks import TaskWriter

NO_SEARCH, NO_CALL, CALL = "NoSearch", "NoCall", "Call"
KINDS = (NO_SEARCH, NO_CALL, CALL)
DIRECT, NONE_FITS = "answered without a tool", "no candidate fits"
"""Right answers to samples of the first two kinds; to the third, `called(tool)` is."""

COUNTS: dict[str, tuple[int, int, int]] = {"train": (1807, 3114, 4664), "valid": (193, 346, 526), "test": (193, 298, 445)}
"""Samples of each kind by split. Source: DEER, Table 2; its test set has no NoSearch samples, ours has as many as `valid`."""


_Tally = Annotated[int, Field(ge=0, strict=True)]
_Count = Annotated[int, Field(ge=1, strict=True)]


def called(tool: str) -> str:
    """The right answer where this tool is the right one."""
    return f"called {tool}"


class DecisionSettings(StrictModel):
    """Settings of the samples; raises ConfigError for an unknown field or a value that makes no sense."""

    #: NoSearch, NoCall and Call samples of each split. Splits other than `test` are about seen tools.
    counts: Mapping[str, tuple[_Tally, _Tally, _Tally]] = Field(default_factory=lambda: dict(COUNTS), min_length=1)
    candidates: _Count = 5  #: tools of a candidate set
    clusters: _Count = 30  #: k-means clusters of the descriptions
    #: parts of the sampling strategies; exact in every round of samples
    mixture: Mapping[str, int] = Field(default_factory=lambda: dict(MIXTURE))
    #: the same for the split `test` (always random in DEER's data)
    test_mixture: Mapping[str, int] = Field(default_factory=lambda: {RANDOM: 1})
    #: seen, unseen: tools of either kind; in the same proportion where the catalog has fewer. No unseen tool shares its
    #: capability with a seen one.
    seen: _Count = 900
    unseen: _Count = 77

    @field_validator("counts")
    @classmethod
    def _some(cls, counts: Mapping[str, tuple[int, int, int]]) -> Mapping[str, tuple[int, int, int]]:
        for split, numbers in counts.items():
            if not sum(numbers):
                raise ValueError(f"{split}: expected a sample of {', '.join(KINDS[:2])} or {KINDS[2]}, got none")
        return counts

    @field_validator("mixture", "test_mixture")
    @classmethod
    def _cycle(cls, parts: Mapping[str, int]) -> Mapping[str, int]:
        mixture_cycle(dict(parts))
        return parts


@dataclass(frozen=True, slots=True)
class DecisionCase:
    """A query and the right decisions about it."""

    kind: str
    query: str
    gold: str  # name of the right tool; "" for NoSearch. A NoCall sample has one too, which is not among the candidates.
    candidates: tuple[str, ...]  # names of the tools that a search brings
    strategy: str  # strategy by which they were sampled
    arguments: Mapping[str, Any] | None = None

    @property
    def right(self) -> str:
        """The right answer."""
        return {NO_SEARCH: DIRECT, NO_CALL: NONE_FITS}.get(self.kind) or called(self.gold)

    def task(self, identity: str, number: int) -> Task:
        """The sample as a task, whose one need is the right decision."""
        need = Need(
            fact=self.right,
            tools=(self.gold,) if self.kind == CALL else (),
            arguments=self.arguments,
            wish=self.query,
            fact_type="words",
        )
        return Task(identity, number, self.query, (need,), self.candidates, group=self.kind)


class SampleWriter:
    """Writes the samples of a generated marketplace, each when it is first asked for."""

    def __init__(self, seed: int, catalog: Catalog, settings: DecisionSettings) -> None:
        self.seed, self.settings = seed, settings
        known = vocabulary(links=True)  # its samples are about any catalog
        self._capabilities = known.capabilities
        self._openers = {category.name: category.opener for category in known.categories}
        self.seen, self.unseen = split_tools(seed, catalog, settings.seen, settings.unseen)
        self._samplers: dict[bool, CandidateSampler] = {}
        self._orders: dict[str, tuple[list[int], list[int]]] = {}
        mixtures = {split: settings.test_mixture if split == "test" else settings.mixture for split in settings.counts}
        self._cycles = {split: mixture_cycle(dict(parts)) for split, parts in mixtures.items()}

    def sampler(self, split: str) -> CandidateSampler:
        """The sampler of a split's candidate sets: among the unseen tools for `test`, else among the seen ones."""
        unseen = split == "test"
        if unseen not in self._samplers:
            pool = self.unseen if unseen else self.seen
            self._samplers[unseen] = CandidateSampler(pool, self.settings.candidates, self.settings.clusters, self.seed)
        return self._samplers[unseen]

    def sample(self, split: str, index: int) -> DecisionCase:
        """The sample at a place of a split."""
        kinds, turns = self._order(split)
        kind = KINDS[kinds[index]]
        luck = Luck("decision", split, index, seed=self.seed)
        sampler = self.sampler(split)
        pool = sampler.pool
        gold = luck.pick(pool)
        if kind == NO_SEARCH:
            # a needless search brings candidates as any other search does
            tools = sampler.draw(RANDOM, gold.name, False, luck)
            return DecisionCase(kind, general_query(luck), "", tuple(tool.name for tool in tools), RANDOM)
        cycle = self._cycles[split]
        strategy = cycle[turns[index] % len(cycle)]
        tools = sampler.draw(strategy, gold.name, kind == CALL, luck)
        query, arguments = self._ask(gold, luck)
        return DecisionCase(kind, query, gold.name, tuple(tool.name for tool in tools), strategy, arguments)

    def write(self, split: str, index: int, number: int) -> Task:
        """The task at a place of a split."""
        return self.sample(split, index).task(f"{split}-{index:05d}", number)

    def _order(self, split: str) -> tuple[list[int], list[int]]:
        """The shuffled kinds of a split's samples, and for each that needs a tool its number among its kind."""
        if split not in self._orders:
            counts = self.settings.counts[split]
            kinds = [kind for kind, many in enumerate(counts) for _ in range(many)]
            order = stable_generator(self.seed, "kinds", split).permutation(len(kinds)).tolist()
            shuffled = [kinds[index] for index in order]
            numbers = [count() for _ in KINDS]
            self._orders[split] = shuffled, [next(numbers[kind]) for kind in shuffled]
        return self._orders[split]

    def _ask(self, tool: Tool, luck: Luck) -> tuple[str, dict[str, Any]]:
        capability = self._capabilities[tool.capability]
        arguments = {kind.name: kind.value(luck.below(kind.size), self.seed) for kind in capability.parameters}
        phrases = {kind.name: kind.phrase(arguments[kind.name]) for kind in capability.parameters}
        return tool_query(reword(capability.wish, luck).format(**phrases), self._openers[capability.category], luck), arguments


def split_tools(seed: int, catalog: Sequence[Tool], seen: int, unseen: int) -> tuple[list[Tool], list[Tool]]:
    """So many seen and unseen tools, in this proportion where there are fewer; capabilities stay whole."""
    if seen + unseen > len(catalog):
        seen, unseen = len(catalog) * seen // (seen + unseen), len(catalog) * unseen // (seen + unseen)
    capabilities: dict[str, list[Tool]] = {}
    for tool in catalog:
        capabilities.setdefault(tool.capability or tool.name, []).append(tool)
    names = Luck("unseen", seed=seed).order(list(capabilities))
    hidden: list[Tool] = []
    # whole capabilities, as long as they last: an unseen tool with a seen twin would not be unseen
    while names and len(hidden) < unseen:
        hidden += capabilities[names.pop()][: unseen - len(hidden)]
    return [tool for name in names for tool in capabilities[name]][:seen], hidden


def decision_world(world: World, seed: int, settings: DecisionSettings | None = None) -> tuple[World, SampleWriter]:
    """A generated marketplace with decisions as tasks; raises ConfigError where tools were not generated or are too few."""
    if not isinstance(world.answers, GeneratedAnswers):
        problem = "samples are written about a generated marketplace; for recorded ones pass a ToolDEER folder as `data`"
        raise ConfigError("decision", problem)
    settings = settings or DecisionSettings()
    writer = SampleWriter(seed, world.catalog, settings)
    counts = {split: sum(numbers) for split, numbers in settings.counts.items()}
    tasks = LazyTaskSet(cast("TaskWriter", writer), counts, on_demand=False)  # kinds of samples come in counted numbers
    return world.changed(tasks=tasks, judge=EXACT), writer


EXACT = Judge(all_facts=1.0, none=0.0)  # a decision is either right or wrong, so this judge grades as the strict grading does


@dataclass(frozen=True, slots=True)
class Example:
    """A query with its candidates and what is right about them."""

    task: Task
    candidates: tuple[Tool, ...]

    @property
    def kind(self) -> str:
        """NoSearch, NoCall or Call."""
        return self.task.group

    @property
    def query(self) -> str:
        return self.task.query

    @property
    def gold(self) -> int | None:
        """Index of the right candidate, or None where none fits."""
        right = self.task.needs[0].tools
        return next((index for index, tool in enumerate(self.candidates) if tool.name in right), None)


def examples(world: World, split: str, limit: int | None = None) -> list[Example]:
    """The decisions of a split, in order."""
    numbers = world.tasks.numbers(split)[:limit]
    tasks = [world.tasks[number] for number in numbers]
    return [Example(task, tuple(world.catalog.get(name) for name in task.candidates)) for task in tasks]
