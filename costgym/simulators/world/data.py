"""What is fixed about a world: its tools, tasks, answers, failures and prices, and what follows from them for a task."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any

from costgym.simulators.calls import Candidate, Usage, WorldEvent, latency_factors
from costgym.simulators.draws import DrawSource
from costgym.simulators.failures import FailureModel, cumulative_kinds
from costgym.simulators.ledger import Budget, Enforcement
from costgym.simulators.pricing import Pricing
from costgym.simulators.pricing.prompt_cache import ModelPrices
from costgym.simulators.retrieval import Retriever
from costgym.simulators.rules.limits import Rules, make_rules
from costgym.simulators.status import Status
from costgym.simulators.tasks import Answers, Judge, Task, TaskSet, needs_by_tool
from costgym.simulators.tools import Catalog

KEPT = 8_192
"""Tasks whose candidates and events are kept once they are looked up."""


@dataclass(frozen=True)
class WorldData:
    """Everything that is fixed about a world."""

    #: catalog, tasks, answers: the tools, the tasks, and what calls of the tools return
    catalog: Catalog
    tasks: TaskSet
    answers: Answers
    #: failures, judge: how calls fail, and how a lenient judge grades answers
    failures: FailureModel = field(default_factory=FailureModel)
    judge: Judge = field(default_factory=Judge)
    faas: Pricing | None = None  #: pay-per-use pricing; None for flat fees
    #: prices of the model's tokens; None where they are free (they are counted all the same)
    tokens: ModelPrices | None = None
    bill_failures: bool = True  #: executed calls that failed cost their price too
    bill_cold_start: bool = False  #: pay-per-use pricing bills the cold start
    gateway_s: float = 0.05  #: time that a refusal takes, seconds
    #: ttft_s, tokens_per_s: time to the model's first token, seconds, and its speed after that
    ttft_s: float = 0.5
    tokens_per_s: float = 60.0
    slots: int | None = None  #: calls of all tools together that may run at once; None for any number
    gpu_capacity_mb: float | None = None  #: GPU memory that all tools share, MB; None for any amount
    #: seconds that a real model reports count as its time in place of `ttft_s` and `tokens_per_s`
    measured_thinking: bool = False
    events: Callable[[Task, Sequence[Candidate]], Sequence[WorldEvent]] | None = None  #: makes the scheduled events of a task
    #: generator functions of an episode that run beside its calls; see `Episode.process`
    processes: tuple[Callable[[Any], Generator[Any, Any, Any]], ...] = ()
    max_price: float = 100.0  #: the price that counts as a full loss in the Quality of Plan
    alpha: float = 0.5  #: weight of performance in the Quality of Plan
    retriever: Retriever | None = None  #: finds the tools on offer in the catalogue; None where tasks list them
    version: int = 0  #: of the world, see `bounds.WORLDS`
    _slots: dict[int, tuple[Candidate, ...]] = field(default_factory=dict, repr=False)
    _notices: dict[int, tuple[WorldEvent, ...]] = field(default_factory=dict, repr=False)
    _rules: dict[tuple[Budget, Enforcement], Rules] = field(default_factory=dict, repr=False)
    _source: DrawSource = field(default_factory=DrawSource, repr=False)

    def candidates(self, number: int) -> tuple[Candidate, ...]:
        """A task's candidates, with prices and profiles looked up."""
        candidates = self._slots.get(number)
        if candidates is None:
            if len(self._slots) >= KEPT:
                self._slots.clear()
            candidates = self._slots[number] = self._look_up(self.tasks[number])
        return candidates

    def notices(self, number: int) -> tuple[WorldEvent, ...]:
        """A task's scheduled events, in the order given. They depend on the task alone."""
        notices = self._notices.get(number)
        if notices is None:
            if len(self._notices) >= KEPT:
                self._notices.clear()
            events = () if self.events is None else self.events(self.tasks[number], self.candidates(number))
            notices = self._notices[number] = tuple(events)
        return notices

    def rules(self, budget: Budget, enforcement: Enforcement) -> Rules:
        """The world's scalars under a budget."""
        rules = self._rules.get((budget, enforcement))
        if rules is None:
            if len(self._rules) >= KEPT:
                self._rules.clear()
            rules = self._rules[budget, enforcement] = make_rules(self, budget, enforcement)
        return rules

    def thinking_s(self, usage: Usage) -> float:
        """The time that a model takes for a reply, simulated seconds."""
        if self.measured_thinking and usage.seconds is not None:
            return usage.seconds
        return self.ttft_s + usage.output_tokens / self.tokens_per_s

    def _look_up(self, task: Task) -> tuple[Candidate, ...]:
        served = needs_by_tool(task, self.catalog)
        return tuple(self._candidate(task, index, name, served.get(name, ())) for index, name in enumerate(task.candidates))

    def candidate(self, task: Task, index: int, name: str) -> Candidate:
        """A tool of the catalogue as a candidate of a task, in a slot of its own."""
        return self._candidate(task, index, name, needs_by_tool(task, self.catalog).get(name, ()))

    def _candidate(self, task: Task, index: int, name: str, needs: tuple[int, ...]) -> Candidate:
        tool = self.catalog.get(name)
        profile = tool.profile
        latency = profile.latency_at(task.size_level)
        fee, rate = profile.fee, 0.0
        if self.faas is not None:
            memory = (profile.cpu_cons_mb, profile.cpu_inst_mb, profile.gpu_cons_mb, profile.gpu_inst_mb)
            rate = 1000.0 * float(self.faas.rate_per_ms(*memory))
            fee = float(self.faas.per_run)
        return Candidate(
            index=index,
            number=self.catalog.number(name),
            name=name,
            need=needs[0] if needs else -1,
            needs=needs,
            profile=profile,
            effect=tool.effect,
            fee=fee,
            quote=fee + rate * min(latency, profile.timeout_s),
            rate_per_s=rate,
            latency_s=latency,
            factors=latency_factors(profile.latency_spread, profile.latency_quantiles),
            gpu_mb=profile.gpu_cons_mb + profile.gpu_inst_mb,
            slip=self.failures.slip if profile.slip is None else profile.slip,
            persistence=self.failures.persistence if profile.persistence is None else profile.persistence,
        )

    @property
    def bills_time(self) -> bool:
        """Whether calls of some tool are billed by their duration."""
        return self.faas is not None

    @cached_property
    def writes(self) -> bool:
        """Whether some tool writes, or may in other worlds of the same folder, so that episodes have a store."""
        return bool(getattr(self.answers, "writes", False)) or any(tool.effect is not None for tool in self.catalog)

    @cached_property
    def kinds(self) -> tuple[tuple[float, Status], ...]:
        """Cumulative weights of the ways to fail."""
        return cumulative_kinds(self.failures.kinds)

    @cached_property
    def kind_edges(self) -> tuple[float, ...]:
        """The weights alone, the last infinite, so that any luck is below one of them."""
        return (*(edge for edge, _ in self.kinds[:-1]), inf)
