"""The base of the session environments: how a session is drawn, begun, worth and recorded."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Generic, Self, get_args

import gymnasium as gym
from pydantic import ValidationError

from costgym.envs.base import ActType, BaseEnv, ObsType, no_episode
from costgym.envs.features.session_features import PAUSE_S
from costgym.envs.tool_world import Named, named_scenario
from costgym.envs.world_spec import Document, WorldSpec
from costgym.simulators.bounds import refuse
from costgym.simulators.calls import Call
from costgym.simulators.errors import ConfigError, check_known, check_positive
from costgym.simulators.ledger import Budget, Enforcement
from costgym.simulators.oracle.optimum import Optimum
from costgym.simulators.sessions.episode import SessionEpisode, session_world
from costgym.simulators.sessions.informed import value_bound
from costgym.simulators.sessions.rules import FAILURES, SessionRules
from costgym.simulators.status import Status
from costgym.simulators.tasks import Task

if TYPE_CHECKING:
    from costgym.envs.rendering.choice import Choice

REWARDS = ("value", "value-minus-price")
SPLITS = {"train": range(100_000), "valid": range(100_000, 100_300), "test": range(100_300, 100_600)}
"""Numbers of the sessions of each split."""
SPLITS_1 = {**SPLITS, "shifted": range(100_600, 100_900)}
RECALL, NEXT, WAIT, PAUSE, CANCEL = OTHERS = ("recall", "next_query", "wait", "pause", "cancel")
"""Actions that are not calls; the last three where calls run side by side."""
_REFUSED = {
    RECALL: "nothing is remembered for this query",
    WAIT: "no call is in flight",
    CANCEL: "no call of this tool is in flight",
}


@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """Arguments that all environments of sessions have; `SessionBase` describes them."""

    queries: int | None = 100
    tools: int | None = 24
    capabilities: int | None = 4
    providers: int | None = 6
    drift: float | None = 0.003
    price_drift: float | None = 0.01
    repeat: float | None = 0.3
    ttl_s: float | None = 300.0
    outage_every_s: float | None = 400.0
    outage_lasts_s: float | None = 20.0
    budget_share: float | None = 0.4
    failures: Any = None
    scenario: Named | None = None
    world_seed: int = 0
    split: str = "train"
    reward: str = "value"
    budget: dict[str, float] | str | float | None = None
    enforcement: Enforcement | None = None
    success_share: float = 0.5
    cost: str = "price"
    max_steps: int | None = None
    concurrent: bool = False
    render_mode: str | None = None


_RULES = (
    "queries", "tools", "capabilities", "providers", "drift", "price_drift", "repeat", "ttl_s", "outage_every_s",
    "outage_lasts_s", "budget_share", "success_share", "world_seed",
)  # fmt: skip
"""Arguments that are fields of `SessionRules`."""


class SessionWorld(WorldSpec):
    """The rules by which sessions are drawn, and the scenario whose tools are on offer, if there is one."""

    arguments_of_world = frozenset(SessionRules.model_fields)

    def _rules(self) -> SessionRules:
        try:
            world = {name: value for name, value in self.document.items() if name != "rules"}
            scenario = {"scenario": world} if "source" in world else {}
            return SessionRules.model_validate({**self.document["rules"], **scenario})
        except ValidationError as error:
            refuse("header.world.rules", error)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError("header", f"expected the rules of a session, got {self.document!r:.60}") from error

    @property
    def version(self) -> Any:
        rules = self.document.get("rules")
        return rules.get("world", 0) if isinstance(rules, Mapping) else 0

    def digest_under(self, schema: int) -> str:
        return self._rules().digest_under(schema)

    def summary(self) -> dict[str, Any]:
        rules = self._rules()
        tools = f"tools of {rules.scenario.name}" if rules.scenario else f"{rules.tools} tools"
        about = f"Sessions of {rules.queries} queries over {tools} that drift, under one budget."
        return {"name": self.document["name"], "description": about, "currency": "credits", **self.stated_version}

    def arguments(self, settings: Document, data: str | None = None) -> dict[str, Any]:
        rules = self._rules().model_dump(mode="json")
        if data is not None and "scenario" in rules:
            rules["scenario"]["source"]["data"] = data
        rules.pop("world", None)  # the id says it
        return {**settings, **rules}

    @property
    def seed(self) -> int:
        return int(self.document["rules"].get("world_seed", 0))

    def another(self, settings: Document, seed: int) -> Self | None:
        if "source" in self.document:  # whose tools everybody knows
            return None
        return type(self)({**self.document, "rules": {**self.document["rules"], "world_seed": seed}})


class SessionBase(BaseEnv[ObsType, ActType], Generic[ObsType, ActType]):
    """Base of the session environments: `MarketplaceSession-v0` and `MarketplaceSessionChat-v0`.

    ## Arguments

    | argument | meaning |
    | --- | --- |
    | `queries` | Queries of a session. |
    | `tools` | Tools of its catalogue. |
    | `capabilities` | Kinds of queries. |
    | `providers` | Providers of the tools. |
    | `drift` | Chance that a tool enters a new regime between two queries. |
    | `price_drift` | Chance that a tool's price changes between two queries. |
    | `repeat` | Chance that a query asks for a fact that an earlier one asked for. |
    | `ttl_s` | Mean life of a fact, simulated seconds. |
    | `outage_every_s` | Mean time between two outages of a provider, simulated seconds. |
    | `outage_lasts_s` | Mean length of an outage, simulated seconds. |
    | `budget_share` | Default limits, as a share of what the informed policy spends without limits. |
    | `failures` | Rates of reliabilities, adverts and failures. `None`: those of sessions, or of `scenario`. |
    | `scenario` | A world whose tools are on offer, or a folder of worlds, such as `"worlds/train"`. `None` draws tools. |
    | `world_seed` | Draws the sessions of all numbers; 0 draws those of the benchmark. |
    | `split` | Sessions that `reset` draws from: `"train"`, `"valid"` or `"test"`. |
    | `reward` | `"value"` or `"value-minus-price"`. |
    | `budget` | Limits, such as `{"price": 100}`. `None`: `budget_share`, computed for each session. `{}`: no limits. |
    | `enforcement` | What a limit does: `"refuse"` (as `None`), `"terminate"` or `"record"`. |
    | `success_share` | Share of the value from which a session counts as a success. |
    | `cost` | The resource reported as `info["cost"]`: `"price"`, `"seconds"`, `"tokens"` or `"calls"`. |
    | `max_steps` | The number of steps after which an episode is truncated. `None`: 10 for each query. |
    | `concurrent` | A call only starts a tool; `wait`, `pause` and `cancel` are actions. Else a step is a call and its end. |
    | `render_mode` | `"ansi"` gives calls, budget, choice as text, which `"human"` prints; `"rgb_array"`, `"svg"` draw them. |

    A setting that makes no sense raises a `CostGymError` that names it.

    ## Information

    | key | type | meaning |
    | --- | --- | --- |
    | `cost_tokens` | int | Tokens charged in this step: none. |
    | `at_s` | float | Simulated seconds since the session began. |
    | `is_success` | bool | The session has ended with at least `success_share` of its value. |
    | `status` | int | How the last call ended, or why the action was refused, as in `Status`; 0 is a success. |
    | `query` | int | Number of the present query, from 0. |
    | `value` | float | Value of the queries that passed so far. |
    | `value_share` | float | The same as a share of the value of all queries. |
    """

    world_kind = "sessions"
    computes_limits = True
    world_class = SessionWorld

    splits: Mapping[str, range] = SPLITS

    def _rules(self, settings: SessionSettings) -> dict[str, Any]:
        """The fields of `SessionRules` that the arguments set."""
        return {**{name: getattr(settings, name) for name in _RULES}, "world": self.world_version}

    def _configure(self, settings: SessionSettings) -> None:
        """Check the arguments that views of sessions share."""
        check_known("split", settings.split, self.splits)
        rules, failures, budget = self._rules(settings), settings.failures, settings.budget
        if settings.scenario is not None:
            rules["scenario"] = world = named_scenario(settings.scenario, None).in_world(*self.worlds)
            # agents may know how the world's tools were drawn; how they fail, and that by regimes, stays the sessions' own
            changes = {"kinds": FAILURES.kinds, "persistence": 0.0, "bursts": None}
            failures = world.failures.model_copy(update=changes) if failures is None else failures
        self.rules = SessionRules(**rules) if failures is None else SessionRules(**{**rules, "failures": failures})
        self.known_rules = self.rules
        check_known("reward", settings.reward, REWARDS)
        check_known("enforcement", settings.enforcement or "refuse", get_args(Enforcement))
        check_positive("max_steps", settings.max_steps, or_none=True)
        if not isinstance(settings.concurrent, bool):
            raise ConfigError("concurrent", f"expected true or false, got {settings.concurrent!r:.60}")
        self.concurrent = settings.concurrent  # calls run side by side
        self._given_budget = None if budget is None else Budget.one(budget, "budget")
        self._set_up(settings.split, self._given_budget or Budget(), settings.cost, settings.render_mode)
        self.numbers = self.splits[settings.split]
        self.reward = settings.reward
        self.enforcement: Enforcement = settings.enforcement or "refuse"
        self.max_steps = settings.max_steps or 10 * self.rules.queries
        self._given_steps = settings.max_steps
        self.episode: SessionEpisode | None = None

    # -- the episode ---------------------------------------------------------------------------------------------------------

    def _choose_session(self, seed: int | None, options: dict[str, Any] | None) -> tuple[int, int]:
        """The number and the seed of the next session."""
        self._check_options(options)
        gym.Env.reset(self, seed=seed)
        draw = self._draw_number()
        chosen = (options or {}).get("task")
        number = self.numbers[draw % len(self.numbers)] if chosen is None else self._task_number(chosen)
        return number, draw if seed is None else seed

    def _open(self, number: int, seed: int) -> SessionEpisode:
        """Begin a session in the event-driven world."""
        self.episode = episode = session_world(self.rules, number).episode(number, seed, self._given_budget, self.enforcement)
        self._set_limits(episode.budget)
        self.budget = self._given_budget or Budget()
        self._spent = (0.0, 0.0, 0, 0)
        self._steps, self._return = 0, 0.0
        return episode

    def _task_number(self, chosen: object) -> int:
        """A session's number from `options["task"]`: the number, or ``session-NUMBER``."""
        text = str(chosen).removeprefix("session-")
        if isinstance(chosen, bool) or not text.isascii() or not text.isdigit():
            raise ConfigError('options["task"]', f"expected the number of a session, got {chosen!r:.60}")
        return int(text)

    def account(self) -> SessionEpisode:
        return self._playing()

    def _playing(self) -> SessionEpisode:
        episode: SessionEpisode | None = self.episode
        if episode is None:
            raise no_episode()
        return episode

    def _do(self, episode: SessionEpisode, what: str, slot: int = -1) -> Call | None:
        """Play an action that is not a call: one of `OTHERS`, of which `CANCEL` is about the tool in a slot. Returns the call
        that ended, was cut off or was refused; None if the action concerns no call."""
        if what == NEXT:
            episode.skip()
        elif what == RECALL and episode.remembered_s is not None:
            episode.recall()
        elif what == PAUSE or (what == WAIT and episode.can_wait):
            return episode.pause(PAUSE_S if what == PAUSE else inf)
        elif what == CANCEL and (call := episode.oldest(slot)) is not None:
            episode.cancel(call)
            return call
        else:
            return episode.submit(-1, None, Status.FORBIDDEN, _REFUSED[what])
        return None

    def _reward(self, episode: SessionEpisode, value: float, price: float) -> float:
        """What came since the session had brought this value and cost this price."""
        reward = episode.value - value - (episode.ledger.price - price if self.reward == "value-minus-price" else 0.0)
        self._return += reward
        return reward

    def _session_info(self, episode: SessionEpisode, **status: int) -> dict[str, Any]:
        ledger, now = episode.ledger, episode.now_s
        costs = self._cost_info((ledger.price, now, ledger.tokens, ledger.calls))
        progress = {"query": episode.query, "value": episode.value, "value_share": episode.value_share}
        return {**costs, "at_s": now, "is_success": self.succeeded, **status, **progress}

    @property
    def succeeded(self) -> bool:
        episode = self._playing()
        return episode.grade is not None and episode.grade.strict

    def quality(self) -> float:
        """The return so far: value of the queries that passed, less the price where the reward subtracts it."""
        self._playing()
        return float(self._return)

    def figures(self) -> dict[str, Any]:
        """Value, its share of all, queries that passed, and the return."""
        episode = self._playing()
        return {
            "value": float(episode.value),
            "value_share": float(episode.value_share),
            "queries_passed": int(sum(episode.passed)),
            "quality_of_plan": float(self._return),
        }

    def optimum(self, budget: Budget | None = None) -> Optimum:
        """A bound of the value that any policy has on average in this session under limits (None: those of the episode); see
        `simulators.sessions.informed.value_bound`."""
        episode = self._playing()
        limits = episode.budget if budget is None else budget
        price, seconds = (inf if limit is None else float(limit) for limit in (limits.price, limits.seconds))
        if self.concurrent:
            seconds = inf  # step 4 of the bound's proof is about calls that follow one another
        return Optimum((), (), 0.0, 0.0, False, False, value_bound(episode.session, price, seconds), 0.0)

    # -- records -------------------------------------------------------------------------------------------------------------

    def world_spec(self) -> WorldSpec:
        rules = self.rules.model_dump(mode="json")
        return SessionWorld({"name": "session", **rules.pop("scenario", {}), "rules": rules})

    def world_settings(self) -> dict[str, Any]:
        limits = {} if self._given_budget is None else {"budget": self._given_budget.as_dict()}
        form = {"concurrent": True} if self.concurrent else {}
        return {
            **limits, "split": self.split, "reward": self.reward, "enforcement": self.enforcement,
            "max_steps": self._given_steps, **form,
        }  # fmt: skip

    def choice(self) -> "Choice | None":
        from costgym.envs.rendering.chart import number
        from costgym.envs.rendering.choice import query_choice

        episode = self._playing()
        session, query = episode.session, episode.query
        if query >= session.rules.queries:
            return None
        kind, held = int(session.capability[query]), int(session.fact[query]) in episode.memory
        title = f"query {query + 1} of {session.rules.queries}; worth {number(float(session.value[query]))} credits"
        text = f"kind {kind + 1}, {'a fact that memory holds' if held else 'a fact that memory does not hold'}"
        return query_choice(
            episode, title, text, [slot for slot in episode.candidates if int(session.offers[slot.index]) == kind]
        )

    @property
    def task(self) -> Task:
        """The session being played, as a task."""
        return self._playing().task

    def _redraw(self, seed: int) -> None:
        if self.episode is not None:
            self.episode.redraw(seed)
