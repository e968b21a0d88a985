"""The best play of an episode, knowing its luck. Regret is measured against it.

All chance is fixed by seed and task, so the outcome of a tool's k-th call can be read before it is made. Each tool serves one
need, hence a need costs the cheapest (tool, number of calls until the first that works), and a plan the sum over its needs.
Needs that share tools cost at least the cheapest call that works, since the failures before it may serve several of them.
A need that wants an effect costs at least the calls until the first that takes effect, whatever its status says.
That sum is a lower bound whatever happens in time: bursts, bans, rate limits and rising prices only add to it. The plan is
played on a real episode; where it attains the bound it is the optimum. Else a best-first search over forks looks for another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from itertools import product
from math import prod
from typing import Any

from costgym.simulators.calls import QUANTILES, Call, Candidate
from costgym.simulators.draws import OUTCOME
from costgym.simulators.ledger import Budget, Enforcement
from costgym.simulators.quality import quality_of_plan
from costgym.simulators.rules import layout
from costgym.simulators.rules.calls import FIRST_FAILURE, price_of, runs_for
from costgym.simulators.rules.failures import start_next, way_to_fail
from costgym.simulators.rules.limits import exceeded
from costgym.simulators.rules.records import ToolState
from costgym.simulators.rules.writes import happens
from costgym.simulators.status import Status
from costgym.simulators.tasks import needed
from costgym.simulators.tools import CHECK, READ, WRITE, Same
from costgym.simulators.world import World
from costgym.simulators.world.episode import Episode

WAIT = -1  # an action of a plan: go to the next completion or event
TRIES, COMBINATIONS, NODES = 64, 256, 300
"""Limits on the calls of one tool that are foreseen, on choices of tools that are played, and on nodes of the search."""
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best plan of an episode."""

    plan: tuple[int, ...]  #: slots in the order of their calls, repeats for the tries that are bound to fail
    actions: tuple[float, ...]  #: the same with the waits between them: a slot, `WAIT`, or ``-1 - seconds`` to let seconds pass
    #: what the plan costs
    price: float
    seconds: float
    feasible: bool  #: every need is met within the budget
    exact: bool  #: no policy does better; otherwise `quality` is an upper bound and the plan is the best one found
    quality: float  #: quality of Plan of the optimum under the grading asked for (an upper bound where not `exact`)
    achieved: float  #: quality of Plan of `plan`, under the same grading


@dataclass(frozen=True, slots=True)
class Option:
    """A way to meet a need: a number of calls of one tool, the last of which works."""

    need: int
    slot: int
    tries: int
    price: float


def optimum(
    world: World,
    task_number: int,
    seed: int,
    budget: Budget | None = None,
    grading: str = "strict",
    enforcement: Enforcement = "record",
    patient: bool = True,
    concurrent: bool = True,
    searching: bool = False,
) -> Optimum:
    """Find the best plan under an episode's realised luck.

    Wanted, in this order: a pass under the ranking grading within the budget; failing that, under strict grading, a judge's
    pass; a low price. A plan that costs more Quality of Plan than its pass brings is not worth it: then nothing is called.

    Args:
        world, task_number, seed: The episode.
        budget: What may be spent; None for any amount.
        grading: What counts as a pass: "strict" or "judge".
        enforcement: Enforcement of the budget under which the plan is played.
        patient: The plan may let time pass with nothing in flight, which the numeric view does not offer.
        concurrent: Calls may run side by side.
        searching: Where tools are retrieved, whatever serves in the catalogue may be called, and finding it takes no time.
    """
    # by identity, since worlds hold functions and cannot be compared
    return _remembered(Same(world), task_number, seed, budget or Budget(), grading, enforcement, patient, concurrent, searching)


@lru_cache(maxsize=8192)
def _remembered(world: Same, number: int, seed: int, budget: Budget, grading: str, *how: Any) -> Optimum:
    return _Solver(world.value, number, seed, budget, *how).solve(grading)


def facts_wanted(episode: Episode, grading: str) -> int | None:
    """The number of required facts that pass in this episode, whose judge's luck is known; None where no number does."""
    count: int = sum(need.required for need in episode.needs)
    if grading == "strict":
        return count
    for facts in range(count + 1):
        if layout.judge_luck(episode, episode) < layout.judge_chance(episode, episode, facts):
            return facts
    return None


class _Solver:
    """Searches for the optimum of one episode."""

    def __init__(
        self,
        world: World,
        number: int,
        seed: int,
        budget: Budget,
        enforcement: Enforcement,
        patient: bool,
        concurrent: bool,
        searching: bool,
    ) -> None:
        self.world, self.number, self.seed, self.budget = world, number, seed, budget
        self.enforcement, self.patient, self.concurrent = enforcement, patient, concurrent
        self.searching = searching and world.retriever is not None
        self.scratch = self._opened(world.episode(number, seed))
        self.tools: dict[int, tuple[ToolState, list[bool]]] = {}  # by slot, with whether each of its calls finds it working
        self.after = [need.after for need in self.scratch.needs]
        self.required = [need.required for need in self.scratch.needs]
        self.state = [need.state for need in self.scratch.needs]
        # an effect has to be told of where the answer states what it returned, or another call takes that as an argument
        used = {before for need in self.scratch.needs for before in need.after}
        self.must_be_stated = [need.asked or number in used for number, need in enumerate(self.scratch.needs)]
        wanted = needed(self.scratch.needs)
        self.notices = [] if world.events is None else list(world.events(self.scratch.task, self.scratch.candidates))
        self.lowest = self._lowest_factors()
        serving = [slot for slot in self.scratch.candidates if slot.role in (READ, WRITE)]
        self.serving = [[slot for slot in serving if is_wanted and need in slot.needs] for need, is_wanted in enumerate(wanted)]

    def _opened(self, episode: Episode) -> Episode:
        """With all tools on offer that serve a need, if they may be searched for."""
        if self.searching:
            serving = [self.world.catalog.number(name) for need in episode.task.needs for name in need.tools]
            episode.offer(serving)
        return episode

    def _lowest_factors(self) -> list[float]:
        """The lowest factor that each slot's price has at any time."""
        if self.world.processes:  # they may set any price
            return [0.0] * len(self.scratch.candidates)
        now = [1.0] * len(self.scratch.candidates)
        lowest = list(now)
        for notice in sorted(self.notices, key=lambda notice: notice.at_s):
            if notice.kind == "price_change":
                for slot in notice.slots:
                    now[slot] *= notice.factor
                    # before a change at time 0 nothing can be called
                    lowest[slot] = now[slot] if notice.at_s <= 0 else min(lowest[slot], now[slot])
        return lowest

    # -- what will happen --------------------------------------------------------------------------------------------------

    def foresee(self, spec: Candidate, k: int) -> tuple[bool, float]:
        """Return whether the k-th call of a tool can bring what it is for if it is not refused, and the least it can cost."""
        ends = [self._end(spec, k, outage=False)]
        if self.scratch.bursts is not None and self.scratch.bursts.model.concerns(spec.name):
            ends.append(self._end(spec, k, outage=True))
        return any(works for works, _ in ends), self.lowest[spec.index] * min(cost for _, cost in ends)

    def _end(self, spec: Candidate, k: int, outage: bool) -> tuple[bool, float]:
        """Return whether the k-th call of a tool brings what it is for, inside or outside an outage, and its price at factor 1
        where its instance is warm but for the first call's."""
        scratch, rules = self.scratch, self.scratch.rules
        tool, works = self._tool_at(spec, k)
        _, u_kind, u_duration, u_content = scratch.draws_of(spec.index).at(k, spec.index)
        status = Status.OUTAGE if outage else Status.OK
        if not outage and not works:
            status = way_to_fail(scratch, rules, scratch, tool, u_kind)
        drawn_s = spec.latency_s * spec.factors[int(u_duration * QUANTILES)]
        duration, status = runs_for(spec, drawn_s, status)
        # a write that ends ambiguously may have taken effect
        brings = status is Status.OK or (spec.role == WRITE and happens(spec.role, spec.effect, status, u_content))
        if status >= FIRST_FAILURE and not rules.bill_failures:
            return brings, 0.0
        billed = duration + spec.cold_start_s if rules.bill_cold_start and k == 1 else duration
        return brings, price_of(spec, 1.0, duration, billed)

    def _tool_at(self, spec: Candidate, k: int) -> tuple[ToolState, bool]:
        """A tool's hidden state, and whether its k-th call finds it working."""
        known = self.tools.get(spec.index)
        if known is None:
            known = self.tools[spec.index] = self.scratch.hidden_state(spec), [False]  # there is no call 0
        tool, works = known
        while len(works) <= k:
            start_next(spec, tool, self.scratch.draws_of(spec.index).at(len(works), spec.index)[OUTCOME])
            works.append(tool.works)
        return tool, works[k]

    def options(self, need: int, counts: Sequence[int], every: bool) -> list[Option]:
        """Ways to meet a need after the calls already made of each slot, cheapest first; only the cheapest unless `every`."""
        options: list[Option] = []
        limit = float("inf") if self.budget.price is None else self.budget.price + _SLACK
        for spec in self.serving[need]:
            price, done, shared = 0.0, counts[spec.index], len(spec.needs) > 1
            for k in range(done + 1, min(done + TRIES, spec.profile.quota or done + TRIES) + 1):
                works, cost = self.foresee(spec, k)
                price += cost
                if price > limit and not shared:
                    break
                if works:
                    options.append(Option(need, spec.index, k - done, self._least(spec, k) if shared else price))
                    if not every:
                        limit = price
                    break
        options.sort(key=lambda option: (option.price, option.tries, option.slot))
        return options if every else options[:1]

    def _least(self, spec: Candidate, first: int) -> float:
        """The least that a call of a tool can cost that works, from its k-th call on."""
        return min(cost for works, cost in (self.foresee(spec, k) for k in range(first, first + TRIES)) if works)

    def remaining(self, known: Sequence[bool], counts: Sequence[int], wanted: int) -> tuple[float, list[Option]] | None:
        """The cheapest ways to get from the known facts to the wanted number, and their price; None where there is none."""
        missing = wanted - self._required_known(known)
        if missing <= 0:
            return 0.0, []
        order = [need for need in self._order() if not known[need]]
        ways = {need: options[0] for need in order if (options := self.options(need, counts, False))}
        if missing > sum(self.required[need] for need in ways):
            return None
        best: tuple[float, list[Option]] | None = None
        masks = range(1 << len(ways))
        if missing == sum(self.required) - self._required_known(known):
            masks = masks[-1:]  # all of them
        for mask in masks:
            picked = [need for bit, need in enumerate(ways) if mask >> bit & 1]
            if sum(self.required[need] for need in picked) != missing:
                continue
            if any(not known[before] and before not in picked for need in picked for before in self.after[need]):
                continue
            price = sum(ways[need].price for need in picked)
            if best is None or price < best[0]:
                best = (price, [ways[need] for need in picked])
        return best

    def _begun(self, episode: Episode) -> list[bool]:
        """For each need, whether its fact is known, or the effect that it wants is there and costs no further write."""
        store = episode.store
        return [
            store.records[need].count > 0 if state and store is not None else known
            for need, (state, known) in enumerate(zip(self.state, episode.known, strict=True))
        ]

    def _done(self, episode: Episode) -> list[bool]:
        """For each need, whether its fact is known and, where it wants an effect, that is there."""
        pairs = enumerate(zip(self._begun(episode), episode.known, strict=True))
        return [begun and (known or not self.must_be_stated[need]) for need, (begun, known) in pairs]

    def _required_known(self, known: Sequence[bool]) -> int:
        """The number of required facts among those that are known."""
        return sum(is_known and required for is_known, required in zip(known, self.required, strict=True))

    def _order(self) -> list[int]:
        """The needs in an order in which each comes after those that it depends on."""
        done: list[int] = []
        left = list(range(len(self.after)))
        while left:
            ready = [need for need in left if all(before in done for before in self.after[need])] or left
            done.append(ready[0])
            left.remove(ready[0])
        return done

    # -- the optimum -------------------------------------------------------------------------------------------------------

    def solve(self, grading: str) -> Optimum:
        everything = sum(self.required)
        wanted = facts_wanted(self.scratch, grading)
        plan, bound = self._plan(wanted)
        alpha, scale = self.world.alpha, self.world.max_price
        upper = 0.0 if bound is None else max(0.0, quality_of_plan(1.0, bound, alpha, scale))
        if plan is not None and quality_of_plan(1.0, plan.ledger.price, alpha, scale) < 0:
            plan = None
        if plan is not None:
            price = plan.ledger.price
            exact = bound is not None and price <= bound + _SLACK
            achieved = quality_of_plan(1.0, price, alpha, scale)
            feasible = self._required_known(self._done(plan)) == everything > 0
            return _optimum_of(plan, feasible, exact, achieved if exact else upper, achieved)
        if grading == "strict":
            judged, _ = self._plan(facts_wanted(self.scratch, "judge"))
            if judged is not None and judged.ledger.price > 0 and quality_of_plan(1.0, judged.ledger.price, alpha, scale) >= 0:
                achieved = quality_of_plan(0.0, judged.ledger.price, alpha, scale)
                return _optimum_of(judged, False, upper <= 0, upper, achieved)
        return Optimum((), (), 0.0, 0.0, False, upper <= 0, upper, 0.0)

    def _plan(self, wanted: int | None) -> tuple[Episode | None, float | None]:
        """The best unfinished episode found that has the wanted number of facts, and the least price that any could have."""
        if wanted is None:
            return None, None
        start = self._begin()
        cheapest = self.remaining(self._begun(start), start.counts, wanted)
        if cheapest is None:
            return None, None
        bound, chosen = cheapest
        if self.budget.price is not None and bound > self.budget.price + _SLACK:
            return None, None
        best: Episode | None = None
        combinations = self._combinations(chosen, wanted)
        if not combinations:
            return None, None
        bound = sum(option.price for option in combinations[0])
        for options in combinations:
            for together in (False, True) if self.concurrent else (False,):
                if best is not None and sum(option.price for option in options) >= best.ledger.price - _SLACK:
                    break
                episode = self._begin()
                self._act(episode, options, together)
                if self._reached(episode, wanted) and (best is None or episode.ledger.price < best.ledger.price - _SLACK):
                    best = episode
            if best is not None and best.ledger.price <= bound + _SLACK:
                return best, bound
        return self._search(wanted, best), bound

    def _begin(self) -> Episode:
        return self._opened(self.world.episode(self.number, self.seed, self.budget, self.enforcement))

    def _reached(self, episode: Episode, wanted: int) -> bool:
        if episode.over or self._required_known(self._done(episode)) < wanted or episode.in_flight:
            return False
        if not episode.needs_met(episode.known)[1]:
            return False
        ledger = episode.ledger
        return exceeded(self.budget, ledger.price, episode.now_s, ledger.tokens, ledger.calls) is None

    def _combinations(self, chosen: list[Option], wanted: int) -> list[list[Option]]:
        """Choices of tools by rising price; more than the cheapest only where calls or seconds are limited too."""
        if self.budget.calls is None and self.budget.seconds is None:
            return [chosen]
        none = [0] * len(self.scratch.candidates)
        columns = [self.options(option.need, none, True) for option in chosen]
        if prod(len(column) for column in columns) > 20_000 or wanted < sum(self.required):
            return [chosen]
        limit = float("inf") if self.budget.calls is None else self.budget.calls
        combinations = [list(options) for options in product(*columns) if sum(option.tries for option in options) <= limit]
        combinations.sort(key=lambda options: sum(option.price for option in options))
        return combinations[:COMBINATIONS]

    # -- playing -----------------------------------------------------------------------------------------------------------

    def _act(self, episode: Episode, options: Sequence[Option], together: bool) -> None:
        """Play a choice of tools, one call after the other, or side by side as far as the chains allow.

        A call that is bound to fail needs no facts: side by side, only the call that works waits for what its need depends on.
        """
        if not together:
            for option in options:
                for _ in range(option.tries + 3):
                    if episode.over or self._begun(episode)[option.need] or not self._call(episode, option.slot):
                        break
            return
        left = {option.need: option for option in options}
        for option in options:
            for _ in range(option.tries - 1):
                if episode.over or episode.submit(option.slot).finished_s >= 0:
                    return
        while left and not episode.over:
            ready = [need for need in left if all(episode.known[before] for before in self.after[need])]
            for need in ready:
                if episode.submit(left.pop(need).slot).finished_s >= 0:
                    return
            if not episode.in_flight:
                return
            episode.wait()
        while episode.in_flight and not episode.over:
            episode.wait()

    def _call(self, episode: Episode, slot: int) -> bool:
        """Call a tool and wait for its end, as the environments do; False where it is refused for good."""
        call: Call = episode.submit(slot)
        if call.status is Status.RATE_LIMITED and call.finished_s >= 0 and self.patient and not episode.over:
            episode.advance(max(0.0, call.submitted_s + call.retry_after_s - episode.now_s) + 1e-6)
            if episode.grade is not None:  # the deadline came first, so the episode has ended and has a grade
                return False
            call = episode.submit(slot)
        if call.k == 0:
            return False
        while call.finished_s < 0 and not episode.over:
            episode.wait()
        return True

    def _search(self, wanted: int, best: Episode | None) -> Episode | None:
        """Search forks best-first, by the price so far and the least still to come; keeps `best` where nothing beats it."""
        start = self._begin()
        heap: list[tuple[float, int, Episode]] = [(0.0, 0, start)]
        made = 1
        seen: set[tuple[object, ...]] = set()
        limit = float("inf") if self.budget.price is None else self.budget.price
        for _ in range(NODES):
            if not heap:
                break
            least, _, episode = heappop(heap)
            if best is not None and least >= best.ledger.price - _SLACK:
                break
            if self._reached(episode, wanted):
                return episode
            for step in self._steps(episode):
                fork = episode.fork()
                if step >= 0:
                    self._call(fork, int(step))
                else:
                    fork.advance(-1 - step)
                # the same calls in another order lead to the same state
                # rounded, since sums in another order differ in their last bits
                effects = () if fork.store is None else tuple(record.count for record in fork.store.records.values())
                state = (tuple(fork.counts), tuple(fork.known), effects, round(fork.ledger.price, 9), round(fork.now_s, 6))
                if fork.over or state in seen:
                    continue
                seen.add(state)
                to_come = self.remaining(self._begun(fork), fork.counts, wanted)
                if to_come is None or fork.ledger.price + to_come[0] > limit + _SLACK:
                    continue
                heappush(heap, (fork.ledger.price + to_come[0], made, fork))
                made += 1
        return best

    def _steps(self, episode: Episode) -> list[float]:
        """Actions that may be worth taking next: a call for an open need, or, if `patient`, waiting for the world to change."""
        steps: list[float] = []
        for need, serving in enumerate(self.serving):
            if self.state[need] and self._begun(episode)[need]:
                checks = [slot.index for slot in episode.candidates if slot.role == CHECK and need in slot.needs]
                steps += checks if self.must_be_stated[need] and not episode.known[need] else []
            elif not episode.known[need] and all(episode.known[before] for before in self.after[need]):
                useful = {option.slot for option in self.options(need, episode.counts, True)}
                steps += [slot.index for slot in serving if slot.index in useful and slot.index not in episode.banned]
        if self.patient and len(episode.calls) < TRIES:
            now = episode.now_s
            changes = [notice.at_s for notice in self.notices if notice.at_s > now]
            if episode.bursts is not None and episode.bursts.cover(now):  # which also draws the outages up to now
                changes += [end for begin, end in episode.bursts.spans if begin <= now < end]
            if changes:
                steps.append(-1 - (min(changes) - now))
        return steps


def _optimum_of(episode: Episode, feasible: bool, exact: bool, quality: float, achieved: float) -> Optimum:
    actions: list[float] = []
    for entry in episode.log:
        if entry[0] == "submit":
            actions.append(entry[1])
        elif entry[0] == "wait":
            actions.append(WAIT)
        elif entry[0] == "advance":
            actions.append(-1 - entry[1])
    plan = tuple(call.slot for call in episode.calls if call.k)
    return Optimum(plan, tuple(actions), episode.ledger.price, episode.now_s, feasible, exact, quality, achieved)
