"""The world in time: calls that wait, start cold, run, fail and cost, on a SimPy clock.

The event-driven and the batched simulator both follow these rules:

1.  Time is float64 seconds from 0 at the start of an episode. What happens at the same time happens in the order of its
    causes.
2.  Gateway. A call is checked before it runs. A refusal is a typed status, takes `gateway_s`, costs no price and counts
    only in `attempts`. An action that an environment's mask forbids is refused in the same way, as `forbidden` where nothing
    else is wrong with it, and ends nothing.
3.  Rate limit and quota. A tool admits `rate_limit` calls per sliding window and `quota` per episode; past it the call is
    refused.
4.  Slots. A tool runs `concurrency` calls at once; the others wait in submission order. Waiting costs time, not money.
    The machine runs `slots` calls of all tools at once, and hands its slots out in the order of submission. Tools that share
    GPU memory also wait until theirs fits.
5.  Instances. A call takes the most recently used idle instance within `keep_alive_s`; else a cold start comes first.
6.  Duration. The tool's median at the task's size level times a factor at the call's own uniform, read from a table of 4,096
    quantiles of a lognormal, or of what the tool's profile lists in its place. A refused connection is quick; a duration over
    `timeout_s` ends then, as a timeout.
7.  Outcome. The tool's latent chain, bursts and bans decide between ok and a failure. Right arguments give the fact, wrong
    ones run, are billed, and answer with an error or with nothing. A silent fault (partial, corrupt, drifted) looks like an
    answer, without the fact in its words. A call without arguments of its own, of a tool that serves several needs, is for
    the first of them whose fact is missing and can be had when the call is made, else for the first.
8.  Price is fixed when the call starts and charged when it ends: flat per executed call, or by duration times memory.
    Failures are billed (unless `bill_failures` is off); refusals are not. The end of the episode cuts off what is in flight: a
    call that runs costs its flat fee in full and, under FaaS, the elapsed part; one that still waits or loads has not been
    executed and costs nothing but, with `bill_cold_start`, the seconds that it has loaded. A cancelled call is billed alike.
    It gives back its slot and, if it had loaded, its instance at once.
9.  Thinking takes `ttft_s + output tokens / tokens_per_s`, or the seconds that were measured where the world takes those,
    and charges tokens and their price.
10. Waiting goes to the next completion or visible event.
11. Budgets. `refuse` (strict): what cannot be afforded at its quoted price, beside what is already running, is refused.
    `terminate`: the episode ends the moment a limit is passed. `record`: nothing is enforced, as in BTP's protocol, which
    scores runs afterwards. Seconds cannot be refused in advance, so they end the episode under `refuse` too.
12. Finish grades the answer, strictly and as a lenient judge would, by the facts that it states in any accepted form. Facts
    that only serve to find others, and optional ones, need not be stated. An answer with more stray values than facts asked
    for is a dump, and states nothing.
13. Writes. A call of a tool that writes takes effect when it ends well; where it ends ambiguously (`status.AMBIGUOUS`: a
    time-out, a lost connection, a server's error, a garbled answer), it does with the tool's chance `happens`, by the luck of
    the call's content. The status does not tell. A repeat with the same idempotency key has no second effect. Tools see an
    entity from `settles_s` after the end of the first call that made it. A check tells how many effects are seen; an undo takes
    back one that is seen, and else answers with no data. A wanted state counts as known once a call has told of it. Calls that
    are cut off take no effect. The grade looks at the final state first: every wanted effect once, and no other.
14. Sessions (`sessions`). The queries of a session share clock, ledger, instances, rate windows and quotas. Regimes of tools
    and their prices change between queries by their own draws, never by what the agent did. Tools of a provider share its
    outages. A right answer to what the present query asks for passes it, and every right answer to the query that a call was
    made for is remembered; a remembered fact is right as long as it lives.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

from costgym.simulators.calls import Call, Candidate, Usage, WorldEvent, latency_factors
from costgym.simulators.draws import DrawSource
from costgym.simulators.episode import Episode
from costgym.simulators.failures import FailureModel, cumulative_kinds
from costgym.simulators.ledger import Budget, Enforcement
from costgym.simulators.pricing import FaasPricing, TokenPricing
from costgym.simulators.rules.limits import Rules, make_rules
from costgym.simulators.status import Status
from costgym.simulators.tasks import Answers, Judge, Task, TaskSet, needs_by_tool
from costgym.simulators.tools import Catalog

if TYPE_CHECKING:
    from costgym.simulators.retrieval import Retriever

KEPT = 8_192
"""Tasks whose candidates and events are kept once they are looked up."""
__all__ = ["Call", "Candidate", "Enforcement", "Episode", "Usage", "World", "WorldEvent"]


@dataclass(frozen=True)
class World:
    """Everything that is fixed about a world; makes episodes."""

    #: catalog, tasks, answers: the tools, the tasks, and what calls of the tools return
    catalog: Catalog
    tasks: TaskSet
    answers: Answers
    #: failures, judge: how calls fail, and how a lenient judge grades answers
    failures: FailureModel = field(default_factory=FailureModel)
    judge: Judge = field(default_factory=Judge)
    faas: FaasPricing | None = None  #: pay-per-use pricing; None for flat fees
    #: prices of the model's tokens; None where they are free (they are counted all the same)
    tokens: TokenPricing | None = None
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
    max_price: float = 100.0  #: the price that counts as a full loss in the Quality of Plan
    alpha: float = 0.5  #: weight of performance in the Quality of Plan
    retriever: "Retriever | None" = None  #: finds the tools on offer in the catalogue; None where tasks list them
    _slots: dict[int, tuple[Candidate, ...]] = field(default_factory=dict, repr=False)
    _notices: dict[int, tuple[WorldEvent, ...]] = field(default_factory=dict, repr=False)
    _rules: dict[tuple[Budget, Enforcement], Rules] = field(default_factory=dict, repr=False)
    _source: DrawSource = field(default_factory=DrawSource, repr=False)

    def changed(self, **parts: Any) -> "World":
        """The same world with other parts. It looks everything up again, since candidates follow from the parts."""
        return replace(self, **parts, _slots={}, _notices={}, _rules={}, _source=DrawSource())

    def candidates(self, number: int) -> tuple[Candidate, ...]:
        """A task's candidates, with prices and profiles looked up."""
        found = self._slots.get(number)
        if found is None:
            if len(self._slots) >= KEPT:
                self._slots.clear()
            found = self._slots[number] = self._look_up(self.tasks[number])
        return found

    def notices(self, number: int) -> tuple[WorldEvent, ...]:
        """A task's scheduled events, in the order given. They depend on the task alone."""
        found = self._notices.get(number)
        if found is None:
            if len(self._notices) >= KEPT:
                self._notices.clear()
            events = () if self.events is None else self.events(self.tasks[number], self.candidates(number))
            found = self._notices[number] = tuple(events)
        return found

    def rules(self, budget: Budget, enforcement: Enforcement) -> Rules:
        """The world's scalars under a budget."""
        found = self._rules.get((budget, enforcement))
        if found is None:
            if len(self._rules) >= KEPT:
                self._rules.clear()
            found = self._rules[budget, enforcement] = make_rules(self, budget, enforcement)
        return found

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

    @cached_property
    def writes(self) -> bool:
        """Whether some tool writes, so that episodes have a store."""
        return any(tool.effect is not None for tool in self.catalog)

    @cached_property
    def kinds(self) -> tuple[tuple[float, Status], ...]:
        """Cumulative weights of the ways to fail."""
        return cumulative_kinds(self.failures.kinds)

    @cached_property
    def kind_edges(self) -> tuple[float, ...]:
        """The weights alone, the last infinite, so that any luck is below one of them."""
        return (*(edge for edge, _ in self.kinds[:-1]), inf)

    def episode(
        self, task: int, seed: int = 0, budget: Budget | None = None, enforcement: Enforcement = "terminate"
    ) -> Episode:
        """Begin a task on a fresh clock. The same arguments give the same episode in every process."""
        kind = Episode if self.retriever is None else self.retriever.episode_type
        return kind(self, task, seed, budget or Budget(), enforcement)
