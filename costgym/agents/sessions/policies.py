"""Policies for sessions: `greedy`, and an index with memory, pacing and exploration, each of which can be left out.

| agent | remembers its calls | paces its budget | explores | knows |
| --- | --- | --- | --- | --- |
| `bayes-index` | within a query | no | no | the public rules |
| `bayes-memory` | yes | no | no | the public rules |
| `paced` | within a query | yes | no | the public rules |
| `thompson` | yes | yes | by sampling | the public rules |
| `optimistic` | yes | yes | by an upper confidence bound | the public rules |
| `hedged` | yes | yes | as `optimistic`; it calls a second tool beside one that takes long | the public rules |
| `tuned` | yes | yes | as `optimistic`; it pays for later queries too | the public rules |
| `informed-paced` | yes | yes | need not | every tool's present regime and durations |
| `informed` | yes | solves a program again and again | need not | all regimes, prices and queries, those to come too |

All but the last two read observations and `info` alone. All remember facts, and give one from memory where that is worth more
than a call. Where calls may run side by side, all but `hedged` make one at a time.
"""

from bisect import bisect_left
from math import ceil, expm1, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.agents.base import SESSION, Agent
from costgym.agents.oracle import env_of
from costgym.agents.seat import Seat, expect_seat
from costgym.envs.features.session_features import PRICE_UNIT, QUERY_MORE, RUNNING, STATIC
from costgym.envs.sessions.session import MarketplaceSessionEnv, SessionSeat
from costgym.simulators.sessions.beliefs import ToolBeliefs, alive, call_seconds
from costgym.simulators.sessions.draw import call_times
from costgym.simulators.sessions.episode import SessionEpisode
from costgym.simulators.sessions.informed import Program
from costgym.simulators.sessions.rules import VALUES
from costgym.simulators.status import LIMITS, Status

Floats = NDArray[np.float64]
_LOW, _HIGH = VALUES
_ABOVE = 1.0 + 1e-9
_PRICE, _LATENCY, _SUCCESS, _PROVIDER, _QUOTA, _SERVES = (
    STATIC.index(name) for name in ("price", "latency_s", "success", "provider", "quota_left", "serves")
)
_LIMITS = (*LIMITS, Status.BANNED, Status.OVER_BUDGET)
_ALIVE = 5 + QUERY_MORE.index("alive")  # behind the kinds, in version 1
GREEDY_TRIES = 2
SOLVED = 20  # times that `Informed` solves its program in a session
OPTIMISM = 2.0  # standard deviations that `optimistic` adds; chosen on `valid` sessions, see docs/results/sessions.md
TUNED: dict[str, float] = {"optimism": 1.0, "bought": 0.65, "later": 1.0}  # of `tuned`; see benchmarks/session_ladder.py
PATIENCE = 5.0  # mean durations after which `hedged` no longer waits for a call; chosen likewise


class SessionDoNothing(Agent):
    """Leaves every query."""

    name = "do-nothing"
    env_id = SESSION

    def reset(self, seat: Seat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._next = expect_seat(seat, SessionSeat, self).next_action

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        return self._next


class SessionGreedy(Agent):
    """The best advertised success for its price, twice each, for every query until the money is gone; facts are remembered."""

    name = "greedy"
    env_id = SESSION

    def reset(self, seat: Seat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._seat = expect_seat(seat, SessionSeat, self)
        self._query = -1

    def act(self, observation: dict[str, NDArray[np.float32]], info: dict[str, Any]) -> int:
        seat, mask, tools = self._seat, info["action_mask"], observation["tools"]
        if seat.wait_action is not None and mask[seat.wait_action]:
            return seat.wait_action
        if info["query"] != self._query:
            self._query, self._made = info["query"], np.zeros(len(tools), np.int64)
        if mask[seat.recall_action]:
            return seat.recall_action
        open_tools = np.flatnonzero(mask[: len(tools)] & (tools[:, _SERVES] > 0) & (self._made < GREEDY_TRIES))
        if not len(open_tools):
            return seat.next_action
        chosen = int(open_tools[np.argmax(tools[open_tools, _SUCCESS] / np.maximum(tools[open_tools, _PRICE], 1e-9))])
        self._made[chosen] += 1
        return chosen


class IndexPolicy(Agent):
    """Calls the tool with the lowest cost over chance, as long as the query is worth that.

    With `memory` it keeps what calls tell from query to query; `paced` takes costs as shares of what is left, at a shadow price
    that follows spending; `optimism` adds standard deviations of the belief to a chance; `samples` draws chances from the
    beliefs, once a query; `recalls` answers from memory at all. `bought` is the share of the queries that a call is taken to be
    needed for (None: those whose fact is not in memory), and `later` the weight of what a fact is worth to queries to come.
    """

    env_id = SESSION

    def __init__(
        self,
        name: str,
        memory: bool,
        paced: bool,
        optimism: float = 0.0,
        samples: bool = False,
        recalls: bool = True,
        bought: float | None = None,
        later: float = 0.0,
    ) -> None:
        self.name, self.memory, self.paced = name, memory, paced
        self.optimism, self.samples, self.recalls = optimism, samples, recalls
        self.bought, self.later = bought, later

    def reset(self, seat: Seat, observation: dict[str, NDArray[np.float32]], info: dict[str, Any], seed: int) -> None:
        self._seat = expect_seat(seat, SessionSeat, self)
        self._begin(self._seat, observation, seed)
        tools = observation["tools"]
        latencies = np.array([expm1(float(share) * log(61.0)) for share in tools[:, _LATENCY]])
        self._beliefs = ToolBeliefs(self._rules, tools[:, _SUCCESS].astype(np.float64), latencies)

    def _begin(self, seat: SessionSeat, observation: dict[str, NDArray[np.float32]], seed: int) -> None:
        tools = observation["tools"]
        self._rules, count = seat.rules, len(tools)
        self._kinds = self._rules.capabilities
        offers = tools[:, len(STATIC) : len(STATIC) + self._kinds]
        self._offers, self._kinds_offered = offers.argmax(axis=1), int(offers.any(axis=0).sum())  # a world may have fewer kinds
        self._provider = np.rint(tools[:, _PROVIDER] * self._rules.providers).astype(np.int64) - 1
        self._recall, self._next, self._wait = int(seat.recall_action), int(seat.next_action), seat.wait_action
        self._generator = np.random.Generator(np.random.Philox(seed))
        self._query, self._called = -1, -1
        self._outage_s = np.full(count, -np.inf)
        self._shut = np.zeros(count, np.bool_)

    def act(self, observation: dict[str, NDArray[np.float32]], info: dict[str, Any]) -> int:
        if self._wait is not None and info["action_mask"][self._wait]:
            return self._wait  # one call at a time
        if self._called >= 0:
            self._take(self._called, Status(info["status"]), float(info["at_s"]))
            self._called = -1
        return self._choose(observation, info)

    def _choose(self, observation: dict[str, NDArray[np.float32]], info: dict[str, Any], busy: Any = False) -> int:
        """The action that the index chooses, among the tools that are not `busy`."""
        tools, query, mask = observation["tools"], observation["query"], info["action_mask"]
        prices = tools[:, _PRICE].astype(np.float64) * PRICE_UNIT
        if info["query"] != self._query:
            self._enter(int(info["query"]), prices, tools, info)
        kind, value = int(query[1 : 1 + self._kinds].argmax()), float(query[0]) * VALUES[1]
        chances = np.where((mask[: len(tools)] > 0) & ~(self._shut | busy), self._chances(info), 0.0)
        index, best = indices(self._offers, chances, self._costs(prices, info), self._kinds_offered)
        value += self._worth_later(info)
        gain = value - float(index[kind])
        if mask[self._recall] and self.recalls and value * self._alive(query) >= max(0.0, gain):
            return self._recall
        if gain < 0.0:
            return self._next
        self._called = int(best[kind])
        return self._called

    def _costs(self, prices: Floats, info: dict[str, Any]) -> Floats:
        """(I,) what a call costs, in the value's unit."""
        if not self.paced:
            return prices
        money, time = self._uses(prices, info)
        return self._multiplier * (money + time)

    def _alive(self, query: NDArray[np.float32]) -> float:
        """The chance that the fact in memory is still right."""
        if self._rules.world:
            return float(query[_ALIVE + self._kinds])
        return alive(float(query[2 + self._kinds]) * 4.0 * self._rules.ttl_s, self._rules.ttl_s)

    def _worth_later(self, info: dict[str, Any]) -> float:
        """What the present query's fact is worth to queries to come: a query asks with the same chance for the fact of each one
        before it, and finds it alive if not too much time has passed."""
        rules, number = self._rules, int(info["query"])
        if not self.later or number + 1 >= rules.queries:
            return 0.0
        ahead = np.arange(1, rules.queries - number)
        seconds = float(info["at_s"]) / (number + 1) if number else 0.0
        uses = float((np.exp(-ahead * seconds / rules.ttl_s) / (number + ahead)).sum())
        return self.later * rules.repeat * uses * (_LOW + _HIGH) / 2.0

    def called(self, action: int) -> None:
        """Hear that this action was taken instead of the one that it chose."""
        self._called = action if action < self._recall else -1

    # -- what it makes of the session ---------------------------------------------------------------------------------------

    def _enter(self, number: int, prices: Floats, tools: NDArray[np.float32], info: dict[str, Any]) -> None:
        """Begin a query: let beliefs age, and find the shadow price for the queries to come."""
        passed, self._query = number - self._query, number
        self._shut = tools[:, _QUOTA] <= 0.0
        self._age(passed)
        self._drawn = self._generator.random(len(tools)) if self.samples else None
        self._multiplier = 1.0
        if self.paced:
            left = float(self._rules.queries - number) * self._bought_share()
            chances = np.where(self._shut, 0.0, self._chances(info))
            self._multiplier = shadow_price(self._offers, chances, self._uses(prices, info), left, self._kinds_offered)

    def _bought_share(self) -> float:
        """Share of the queries that a call is needed for: those whose fact is not in memory."""
        return 1.0 - 0.5 * float(self._rules.repeat) if self.bought is None else self.bought

    def _uses(self, prices: Floats, info: dict[str, Any]) -> tuple[Floats, Floats]:
        """(I,) shares of the money and of the time that are left that a call uses."""
        money, time = info["budget_remaining_price"], info["budget_remaining_seconds"]
        return prices / max(money, 1e-9), self._seconds() / max(time, 1e-9)

    def _up(self, now_s: float) -> Floats:
        """(I,) chance that a provider which was seen down is up again."""
        chances: Floats = 1.0 - np.exp(-(now_s - self._outage_s) / self._rules.outage_lasts_s)
        return chances

    def _chances(self, info: dict[str, Any]) -> Floats:
        """(I,) chance that a call brings its fact in time."""
        works = self._beliefs.mean
        if self._drawn is not None:
            works = self._beliefs.sample(self._drawn)
        elif self.optimism:
            works = np.minimum(1.0 - self._rules.failures.slip, works + self.optimism * self._beliefs.spread)
        return works * (1.0 - self._beliefs.cut) * self._up(float(info["at_s"]))

    def _seconds(self) -> Floats:
        """(I,) mean seconds of a call."""
        return call_seconds(self._rules.failures, self._beliefs.mean, self._beliefs.lasts_s)

    def _age(self, queries: int) -> None:
        if not self.memory:
            self._beliefs.forget()
            self._outage_s[:] = -np.inf
            return
        for _ in range(queries):
            self._beliefs.next_query()

    def _take(self, slot: int, status: Status, now_s: float) -> None:
        """Take in how a call ended."""
        if status in _LIMITS:
            self._shut[slot] = True
        elif status is Status.OUTAGE:
            self._outage_s[self._provider == self._provider[slot]] = now_s
        else:
            self._learn(slot, status)

    def _learn(self, slot: int, status: Status) -> None:
        self._beliefs.learn(slot, status)


class InformedPaced(IndexPolicy):
    """The paced index of somebody who knows every tool's present regime and durations, but neither luck nor what comes.

    It is a policy, so what it earns is a lower bound of what the best informed policy earns; `value_bound` is the upper one.
    """

    privileged = True

    def __init__(self) -> None:
        super().__init__("informed-paced", memory=True, paced=True)

    def reset(self, seat: Seat, observation: dict[str, NDArray[np.float32]], info: dict[str, Any], seed: int) -> None:
        env = env_of(seat, self.name, MarketplaceSessionEnv, SESSION)
        self._episode: SessionEpisode = env.account()
        self._begin(env.seat(SESSION), observation, seed)
        shares, lasts_s = call_times(self._episode.session.profiles)
        self._empty = 0, len(observation["tools"]) - len(shares)  # slots that a world's tools leave
        self._in_time, self._lasts_s = np.pad(shares, self._empty), np.pad(lasts_s, self._empty)

    def _works(self) -> Floats:
        slip = float(self._rules.failures.slip)
        session, query = self._episode.session, min(self._episode.query, self._rules.queries - 1)
        chances: Floats = np.array([1.0 - slip, 0.5, slip]).take(session.states[query])
        return np.pad(chances, self._empty)

    def _chances(self, info: dict[str, Any]) -> Floats:
        chances: Floats = self._works() * self._in_time * self._up(float(info["at_s"]))
        return chances

    def _seconds(self) -> Floats:
        return call_seconds(self._rules.failures, self._works(), self._lasts_s)

    def _age(self, queries: int) -> None:
        """Nothing to do: it knows."""

    def _learn(self, slot: int, status: Status) -> None:
        """Nothing to do: it knows."""


class Informed(InformedPaced):
    """Knows how tools and prices will move and what will be asked, and re-solves the program of `value_bound` as it goes.

    It knows neither the luck of calls nor outages nor how long facts live."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "informed"

    def reset(self, seat: Seat, observation: dict[str, NDArray[np.float32]], info: dict[str, Any], seed: int) -> None:
        super().reset(seat, observation, info, seed)
        self._program = Program(self._episode.session)
        self._every = max(1, self._rules.queries // SOLVED)
        self._solved = -self._every

    def _enter(self, number: int, prices: Floats, tools: NDArray[np.float32], info: dict[str, Any]) -> None:
        super()._enter(number, prices, tools, info)
        if number - self._solved >= self._every:
            self._solved = number
            left = info["budget_remaining_price"], info["budget_remaining_seconds"]
            self._price, self._second = self._program.solve(number, *left, self._episode.memory)

    def _costs(self, prices: Floats, info: dict[str, Any]) -> Floats:
        return self._price * prices + self._second * self._seconds()

    def _worth_later(self, info: dict[str, Any]) -> float:
        return self._program.worth_later(int(info["query"]))


def optimistic() -> IndexPolicy:
    """The index with memory, pacing and an upper confidence bound."""
    return IndexPolicy("optimistic", memory=True, paced=True, optimism=OPTIMISM)


def tuned() -> IndexPolicy:
    """`optimistic` with all constants tuned together."""
    return IndexPolicy("tuned", memory=True, paced=True, **TUNED)  # type: ignore[arg-type]


class Hedged(IndexPolicy):
    """`optimistic`, which gives a call up that takes `patience` mean durations of its tool: it calls another tool beside it, or
    leaves the query.

    The first answer passes the query, whichever call brings it. Where a step is a call and its end, it plays as `optimistic`.
    On 100 sessions of `valid` a patience of 0.5 earns 0.281 of the value, 1: 0.360, 1.5: 0.387, 2: 0.399, 3: 0.408, 5: 0.412,
    10: 0.405.

    Source: deferred hedged requests (Dean and Barroso, The Tail at Scale, 2013).
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        super().__init__("hedged", memory=True, paced=True, optimism=OPTIMISM)
        self.patience = patience

    def reset(self, seat: Seat, observation: dict[str, NDArray[np.float32]], info: dict[str, Any], seed: int) -> None:
        super().reset(seat, observation, info, seed)
        self._pause = self._seat.pause_action
        # calls in flight, these and those that have ended without a report, and whether the last action was to wait
        self._running, self._unreported, self._waited = 0, 0, False
        self._since_s = np.zeros(len(observation["tools"]))

    def act(self, observation: dict[str, NDArray[np.float32]], info: dict[str, Any]) -> int:
        if self._wait is None or self._pause is None:
            return super().act(observation, info)
        now, running = float(info["at_s"]), observation["tools"][:, -len(RUNNING) :]
        count = int(np.rint(4.0 * running[:, 0].sum()))  # no tool is called twice at once
        if self._called >= 0 and count > self._running:
            self._since_s[self._called], self._unreported = now, self._unreported + 1
        elif self._called >= 0:
            self._take(self._called, Status(info["status"]), now)
        elif self._waited and (self._unreported > self._running or count < self._running):
            self._take(int(info["tool"]), Status(info["status"]), now)
            self._unreported -= 1
        self._called, self._running, self._waited = -1, count, True
        if count < self._unreported:
            return self._wait  # the end of a call has not been reported
        mine = running[:, 1] > 0.0
        if (mine & (now - self._since_s < self.patience * self._beliefs.lasts_s)).any():
            return self._pause
        self._waited = False
        return self._choose(observation, info, running[:, 0] > 0.0)


def indices(offers: NDArray[np.int64], chances: Floats, costs: Floats, kinds: int) -> tuple[Floats, NDArray[np.int64]]:
    """For each kind the lowest cost over chance, and the tool that has it; of (I,) arrays. A tool of chance 0 is not called."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(chances > 0.0, costs / chances, np.inf)
    grid = np.where(offers[None, :] == np.arange(kinds)[:, None], ratios[None, :], np.inf)
    best = grid.argmin(axis=1)
    return grid[np.arange(kinds), best], best


def shadow_price(offers: NDArray[np.int64], chances: Floats, uses: tuple[Floats, Floats], queries: float, kinds: int) -> float:
    """The value that a share of 1 of each budget is worth, such that the queries to come use up what is left.

    Both resources get the same multiplier of their share of what is left, the smallest under which neither is overspent on
    average. Queries are of each kind and of each value with equal chances, and the tools stay as they are now. `uses` are (I,)
    shares of money and time that a call uses. Source: bandits with knapsacks (Badanidiyuru, Kleinberg and Slivkins 2013).
    """
    money, time = uses
    index, best = indices(offers, chances, money + time, kinds)
    # one multiplier for both resources changes no order of the tools, so a kind's best tool is the same under each
    rows = [
        (float(index[kind]), float(money[tool] / chances[tool]), float(time[tool] / chances[tool]))
        for kind, tool in enumerate(best.tolist())
        if np.isfinite(index[kind])
    ]

    def overspends(multiplier: float) -> bool:
        spent = waited = 0.0
        for ratio, price, seconds in rows:
            bought = min(1.0, max(0.0, (_HIGH + 1 - ceil(multiplier * ratio)) / (_HIGH + 1 - _LOW)))
            spent, waited = spent + bought * price, waited + bought * seconds
        return max(spent, waited) * queries / kinds > 1.0

    if not overspends(0.0):
        return 0.0
    # what is bought changes where a value equals a kind's index, and nowhere else
    steps = sorted(value / ratio for ratio, _, _ in rows if ratio > 0.0 for value in range(_LOW, _HIGH + 1))
    rank = bisect_left(steps, True, key=lambda step: not overspends(step * _ABOVE))
    return steps[min(rank, len(steps) - 1)] * _ABOVE
