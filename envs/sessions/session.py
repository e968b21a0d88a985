"""A session in numbers: `costgym/MarketplaceSession-v0`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ...simulators.bounds import refuse
from ...simulators.errors import ConfigError, UnknownName
from ...simulators.ledger import Budget, Enforcement
from ...simulators.oracle.optimum import Optimum
from ...simulators.sessions.episode import SessionEpisode, session_world
from ...simulators.sessions.informed import value_bound
from ...simulators.sessions.redraw import redraw_session
from ...simulators.sessions.rules import SessionRules
from ...simulators.status import Status
from ...simulators.tasks import Task
from ..base import checked_action, no_episode
from ..compiled import Compiled, CompiledChoice
from ..seats import Seat
from .features import MEMORIES, Features, boxes, column_names

if TYPE_CHECKING:
    from ..rendering.chart import Chart
    from ..rendering.story import EpisodeStory

REWARDS = ("value", "value-minus-price")
MASKS = ("useful", "legal")
SPLITS = {"train": range(100_000), "valid": range(100_000, 100_300), "test": range(100_300, 100_600)}
"""Numbers of the sessions of each split."""
Observation = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSeat(Seat):
    """A seat in a session.

    Attributes:
        rules: how sessions are drawn, which is public; what was drawn is not here.
        memory: what observations show of the agent's own calls.
        recall_action, next_action: answer from memory; go to the next query.
    """

    rules: SessionRules
    memory: str
    recall_action: int
    next_action: int


class MarketplaceSessionEnv(CompiledChoice[Observation, "int | np.integer[Any]"]):
    """Answer a hundred queries with one budget: find out which tools work, remember, and choose what is worth its price.

    ## Description

    An episode is a session of `queries` over one small catalogue, with one budget of money and time and a clock that runs
    through. Every query needs one fact of some kind and has a value. Several tools offer each kind; each advertises a price, a
    latency and a success rate. How reliable a tool really is must be found out, and drifts: between two queries a tool enters a
    new regime (mostly working, half, mostly failing) with chance `drift`, and its price changes with chance `price_drift`,
    whatever was called. Tools of one provider share its outages. The budget covers about 40 % of what it would take to answer
    everything, so queries must be chosen.

    With chance `repeat` a query asks for a fact that an earlier one asked for. A fact that was found is remembered and can be
    given again for nothing; but facts die after a while, `ttl_s` on average, and a dead one loses the query and is forgotten.

    Another catalogue is drawn for every session; within a session the tools keep their slots.

    ## Action space

    | action | name | effect |
    | --- | --- | --- |
    | 0 to `tools` - 1 | call | Call the tool in that slot and wait. A right answer passes the query, and the next comes. |
    | `tools` | recall | Answer from memory, for nothing and in no time, and go to the next query. |
    | `tools` + 1 | next | Leave the query, and go to the next one. |

    `info["action_mask"]` is true for the tools that serve the present query and whose price the budget covers, for `recall`
    where the fact is in memory, and always for `next`. `mask="legal"` lets calls of other tools through, which bring
    nothing here. An action that the mask forbids is refused: it takes a moment (`gateway_s`, 0.05 s), costs nothing, ends
    nothing, and
    `info["status"]` says why. An action outside the space raises `gymnasium.error.InvalidAction`.

    ## Observation space

    A dictionary of float32 arrays; everything lies between 0 and 1. The columns are given for four kinds, the default, and
    `memory="counts"`; `memory="raw"` leaves out columns 11 to 16, and 11 and 12 are then those of the last call alone.

    ### `tools`: one row for each slot, (24, 19)

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `price` | 0 to 1 | Price of a call now, in units of 20 credits. |
    | 1 | `latency_s` | 0 to 1 | log(1 + advertised latency in seconds) / log(61). |
    | 2 | `success` | 0 to 1 | Advertised success rate. |
    | 3 | `provider` | 0 to 1 | Its provider's number, from 1, divided by `providers`. |
    | 4 | `rate_limit` | 0 to 1 | Calls admitted a minute, divided by 10; 0 for any number. |
    | 5 | `quota_left` | 0 to 1 | Share of its quota for the session that is left; 1 without a quota. |
    | 6 | `serves` | 0 or 1 | The tool serves the present query. |
    | 7 | `kind_1` | 0 or 1 | The tool answers queries of the first kind. |
    | 8 | `kind_2` | 0 or 1 | The tool answers queries of the second kind. |
    | 9 | `kind_3` | 0 or 1 | The tool answers queries of the third kind. |
    | 10 | `kind_4` | 0 or 1 | The tool answers queries of the fourth kind. |
    | 11 | `calls` | 0 to 1 | log(1 + its calls in this session) / 5. |
    | 12 | `mean_ok` | 0 to 1 | (calls that worked + 1) / (calls + 2). |
    | 13 | `recent_ok` | 0 to 1 | The same with weights that fall by 0.7 from call to call; 0.5 at the start. |
    | 14 | `failures_in_a_row` | 0 to 1 | Its failures since it worked last, divided by 5. |
    | 15 | `since_s` | 0 to 1 | log(1 + seconds since its last call) / 7; 1 before the first. |
    | 16 | `outage_ago_s` | 0 to 1 | log(1 + seconds since its provider was last seen down) / 7; 1 if never. |
    | 17 | `last_ok` | 0 or 1 | Its last call looked as if it worked. |
    | 18 | `last_failed` | 0 or 1 | Its last call failed or was refused. |

    ### `query`: the present query, (9,)

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `value` | 0 to 1 | What it is worth, divided by 20. |
    | 1 | `kind_1` | 0 or 1 | It is of the first kind. |
    | 2 | `kind_2` | 0 or 1 | It is of the second kind. |
    | 3 | `kind_3` | 0 or 1 | It is of the third kind. |
    | 4 | `kind_4` | 0 or 1 | It is of the fourth kind. |
    | 5 | `remembered` | 0 or 1 | Its fact is in memory. |
    | 6 | `age` | 0 to 1 | Age of that fact, in units of 4 `ttl_s`. |
    | 7 | `called` | 0 to 1 | Calls made for this query, divided by 10. |
    | 8 | `queries_left` | 0 to 1 | Share of the queries that are not over. |

    ### `resources`: the session as a whole, (5,)

    | column | name | range | meaning |
    | --- | --- | --- | --- |
    | 0 | `price_left` | 0 to 1 | Share of the money that is left; 1 without a limit. |
    | 1 | `seconds_left` | 0 to 1 | Share of the time that is left, likewise. |
    | 2 | `clock` | 0 to 1 | log(1 + simulated seconds so far) / log(10,001). |
    | 3 | `step` | 0 to 1 | Steps taken, as a share of `max_steps`. |
    | 4 | `value` | 0 to 1 | Value of the queries that passed, divided by 20 `queries`. |

    ## Rewards

    A query that passes brings its value, 2 to 20 credits. With `reward="value"` (the default) cost is apart, in
    `info["cost"]`, as constrained learners want it; `reward="value-minus-price"` subtracts the money charged in each step.

    ## Starting state

    The clock stands at 0, nothing is spent, and the first query has come. The session is drawn from the split;
    `reset(options={"task": number})` names it. The catalogue, the queries and the drift follow from the number; the luck of
    calls, outages and facts from the number and the seed.

    ## Episode end

    * Termination: the last query is over, or the limit on seconds is passed. Under `enforcement="refuse"` (the default) no call
      is made that the rest of the money does not cover.
    * Truncation: `max_steps` steps were taken. `env.spec.max_episode_steps` is the same number.

    A step after the end changes nothing and is rewarded with 0.

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
    | `failures` | Rates of reliabilities, adverts and failures, as in a scenario. `None`: those of sessions. |
    | `split` | Sessions that `reset` draws from: `"train"`, `"valid"` or `"test"`. |
    | `memory` | `"counts"` shows the agent's own counts and means for each slot, `"raw"` the last call's end alone. |
    | `reward` | `"value"` or `"value-minus-price"`. |
    | `mask` | `"useful"` masks calls that cannot serve the present query, `"legal"` does not. |
    | `budget` | Limits, such as `{"price": 100}`. `None`: `budget_share`, computed for each session. `{}`: no limits. |
    | `enforcement` | What a limit does: `"refuse"` (as `None`), `"terminate"` or `"record"`. |
    | `success_share` | Share of the value from which a session counts as a success. |
    | `cost` | The resource reported as `info["cost"]`: `"price"`, `"seconds"`, `"tokens"` or `"calls"`. |
    | `max_steps` | The number of steps after which an episode is truncated. `None`: 10 for each query. |
    | `compiled` | Play in compiled code (extra `train`): the same to the last bit, and faster. `"auto"`: once it pays. |
    | `render_mode` | `"ansi"` returns a table of calls, `"rgb_array"` a Gantt chart, `"human"` prints the table. |

    A setting that makes no sense raises a `CostGymError` that names it.

    ## Information

    | key | type | meaning |
    | --- | --- | --- |
    | `cost` | float or int | What this step used of the resource chosen by the argument `cost`. |
    | `cost_price` | float | Money charged in this step. |
    | `cost_seconds` | float | Simulated seconds that passed in this step. |
    | `cost_tokens` | int | Tokens charged in this step: none. |
    | `cost_calls` | int | Executed tool calls that ended in this step. |
    | `cost_sum` | float or int | The sum of `cost` since the episode began. |
    | `budget_remaining_price` | float | Money left; negative once overspent, infinite without a limit. |
    | `budget_remaining_seconds` | float | Simulated seconds left, likewise. |
    | `budget_remaining_tokens` | float | Tokens left, likewise. |
    | `budget_remaining_calls` | float | Executed calls left, likewise. |
    | `at_s` | float | Simulated seconds since the session began. |
    | `is_success` | bool | The session has ended with at least `success_share` of its value. |
    | `status` | int | How the last call ended, or why the action was refused, as in `Status`; 0 is a success. |
    | `query` | int | Number of the present query, from 0. |
    | `value` | float | Value of the queries that passed so far. |
    | `value_share` | float | The same as a share of the value of all queries. |
    | `action_mask` | bool array | Which actions the argument `mask` lets through, one entry for each. |

    ## Version history

    * v0: first version.
    """

    episode_state = ("_episode", "_features", "_compiled")
    kernels = "sessions"
    world_kind = "sessions"
    computes_limits = True
    WORLD_ARGUMENTS = frozenset(SessionRules.model_fields)

    def __init__(
        self,
        queries: int = 100,
        tools: int = 24,
        capabilities: int = 4,
        providers: int = 6,
        drift: float = 0.003,
        price_drift: float = 0.01,
        repeat: float = 0.3,
        ttl_s: float = 300.0,
        outage_every_s: float = 400.0,
        outage_lasts_s: float = 20.0,
        budget_share: float = 0.4,
        failures: Any = None,
        split: str = "train",
        memory: str = "counts",
        reward: str = "value",
        mask: str = "useful",
        budget: dict[str, float] | str | float | None = None,
        enforcement: Enforcement | None = None,
        success_share: float = 0.5,
        cost: str = "price",
        max_steps: int | None = None,
        compiled: Compiled = "auto",
        render_mode: str | None = None,
    ) -> None:
        given = {
            "queries": queries, "tools": tools, "capabilities": capabilities, "providers": providers, "drift": drift,
            "price_drift": price_drift, "repeat": repeat, "ttl_s": ttl_s, "outage_every_s": outage_every_s,
            "outage_lasts_s": outage_lasts_s, "budget_share": budget_share, "success_share": success_share,
        }  # fmt: skip
        self.rules = SessionRules(**given) if failures is None else SessionRules(**given, failures=failures)
        for what, name, known in (
            ("split", split, SPLITS), ("memory", memory, MEMORIES), ("reward", reward, REWARDS), ("mask", mask, MASKS),
            ("enforcement", enforcement or "refuse", ("refuse", "terminate", "record")),
        ):  # fmt: skip
            if name not in known:
                raise UnknownName(what, str(name), known)
        if max_steps is not None and (isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1):
            raise ConfigError("max_steps", f"expected a positive whole number or None, got {max_steps!r}")
        self._given_budget = None if budget is None else Budget.one(budget, "budget")
        self._set_up(split, self._given_budget or Budget(), cost, render_mode)
        self.numbers = SPLITS[split]
        self.memory, self.reward, self.mask = memory, reward, mask
        self.enforcement: Enforcement = enforcement or "refuse"
        self.max_steps, self._given_steps = max_steps or 10 * self.rules.queries, max_steps
        self.column_names = column_names(self.rules, memory)
        self.recall_action, self.next_action = self.rules.tools, self.rules.tools + 1
        self.action_space = gym.spaces.Discrete(self.rules.tools + 2)
        self.observation_space: gym.spaces.Space[Observation] = gym.spaces.Dict(boxes(self.rules, memory))  # type: ignore[assignment, arg-type]
        self._choose_engine(compiled)

    # -- the episode ---------------------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        self._check_options(options)
        super().reset(seed=seed)
        draw = int(self.np_random.integers(1 << 62))
        chosen = (options or {}).get("task")
        number = self.numbers[draw % len(self.numbers)] if chosen is None else self._task_number(chosen)
        return self._begin(number, draw if seed is None else seed)

    def open_episode(self, number: int, seed: int) -> tuple[Observation, dict[str, Any]]:
        world = session_world(self.rules, number)
        self._episode = episode = world.episode(number, seed, self._given_budget, self.enforcement)
        self._set_limits(episode.budget)
        self.budget = self._given_budget or Budget()
        self._spent = (0.0, 0.0, 0, 0)
        self._features = Features(episode, self.memory)
        self._steps, self._status, self._return = 0, Status.OK, 0.0
        return self._observe(episode), self._info(episode)

    def step(self, action: int | np.integer[Any]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        number = checked_action(action, self.next_action + 1)
        if self._compiled is not None and self._compiled.goes_on:
            return self._compiled.play(number)
        episode = self._playing()
        if episode.over:
            return self._observe(episode), 0.0, True, False, self._info(episode)
        self._steps += 1
        value, price = episode.value, episode.ledger.price
        if number == self.next_action:
            episode.skip()
        elif number == self.recall_action and episode.remembered_s is not None:
            episode.recall()
        elif number == self.recall_action:
            self._status = episode.submit(-1, None, Status.FORBIDDEN).status
        else:
            self._call(episode, number)
        reward = episode.value - value
        if self.reward == "value-minus-price":
            reward -= episode.ledger.price - price
        self._return += reward
        truncated = not episode.over and self._steps >= self.max_steps
        return self._observe(episode), reward, episode.over, truncated, self._info(episode)

    def _task_number(self, chosen: object) -> int:
        """A session's number from `options["task"]`: the number, or ``session-NUMBER``."""
        text = str(chosen).removeprefix("session-")
        if isinstance(chosen, bool) or not text.isascii() or not text.isdigit():
            raise ConfigError('options["task"]', f"expected the number of a session, got {chosen!r:.60}")
        return int(text)

    def _call(self, episode: SessionEpisode, slot: int) -> None:
        if self.mask == "useful" and int(episode.session.offers[slot]) != episode.capability:
            call = episode.submit(slot, None, Status.FORBIDDEN)
        else:
            call = episode.call(slot)
        self._status = call.status
        self._features.take(call, episode)

    def _playing(self) -> SessionEpisode:
        episode: SessionEpisode | None = self.episode
        if episode is None:
            raise no_episode()
        return episode

    def _observe(self, episode: SessionEpisode) -> Observation:
        return self._features.observe(episode, self._steps / self.max_steps)

    def _info(self, episode: SessionEpisode) -> dict[str, Any]:
        ledger, now = episode.ledger, episode.now_s
        info = self._cost_info((ledger.price, now, ledger.tokens, ledger.calls))
        info["at_s"] = now
        info["is_success"] = self.succeeded
        info["status"] = int(self._status)
        info["query"] = episode.query
        info["value"] = episode.value
        info["value_share"] = episode.value_share
        info["action_mask"] = self._possible(episode)
        return info

    def action_masks(self) -> NDArray[np.bool_]:
        """The present action mask, (actions,) bool. `next` is always allowed."""
        if self._compiled is not None and self._compiled.goes_on:
            return self._compiled.action_masks()
        return self._possible(self._playing())

    def _possible(self, episode: SessionEpisode) -> NDArray[np.bool_]:
        mask = np.zeros(self.next_action + 1, np.bool_)
        mask[self.next_action] = True
        if episode.over:
            return mask
        tools = episode.session.offers == episode.capability if self.mask == "useful" else np.ones(self.rules.tools, np.bool_)
        if episode.enforcement == "refuse":
            tools = tools & np.array([episode.affordable(slot) for slot in range(self.rules.tools)])
        mask[: self.rules.tools] = tools
        mask[self.recall_action] = episode.remembered_s is not None
        return mask

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
        """A bound of the value that any policy has on average in this session; see `simulators.sessions.informed.value_bound`.

        Args:
            budget: limits to keep; None for those of the episode.
        """
        episode = self._playing()
        limits = episode.budget if budget is None else budget
        price, seconds = (float("inf") if limit is None else float(limit) for limit in (limits.price, limits.seconds))
        return Optimum((), (), 0.0, 0.0, False, False, value_bound(episode.session, price, seconds), 0.0)

    # -- records -------------------------------------------------------------------------------------------------------------

    def world_document(self) -> dict[str, Any]:
        return {"name": "session", "rules": self.rules.model_dump(mode="json")}

    def world_settings(self) -> dict[str, Any]:
        limits = {} if self._given_budget is None else {"budget": self._given_budget.as_dict()}
        return {
            **limits, "split": self.split, "memory": self.memory, "reward": self.reward, "mask": self.mask,
            "enforcement": self.enforcement, "max_steps": self._given_steps,
        }  # fmt: skip

    @classmethod
    def _rules(cls, document: Mapping[str, Any]) -> SessionRules:
        from pydantic import ValidationError

        try:
            return SessionRules.model_validate(dict(document["rules"]))
        except ValidationError as error:
            refuse("header.world.rules", error)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError("header", f"expected the rules of a session, got {document!r:.60}") from error

    @classmethod
    def world_digest(cls, document: Mapping[str, Any]) -> str:
        rules = cls._rules(document)
        return hashlib.sha256(json.dumps(["session", rules.digest]).encode()).hexdigest()[:16]

    @classmethod
    def world_summary(cls, document: Mapping[str, Any]) -> dict[str, Any]:
        rules = cls._rules(document)
        about = f"Sessions of {rules.queries} queries over {rules.tools} tools that drift, under one budget."
        return {"name": "session", "description": about, "currency": "credits"}

    @classmethod
    def world_arguments(
        cls, document: Mapping[str, Any], settings: Mapping[str, Any], data: str | None = None
    ) -> dict[str, Any]:
        return {**settings, **cls._rules(document).model_dump(mode="json")}

    def seat(self, env_id: str, examples: int = 0) -> SessionSeat:
        return SessionSeat(
            **self.seat_parts(env_id),
            max_price=self._playing().world.max_price,
            rules=self.rules,
            memory=self.memory,
            recall_action=self.recall_action,
            next_action=self.next_action,
        )

    @property
    def task(self) -> Task:
        """The session being played, as a task."""
        return self._playing().task

    def give_up(self) -> None:
        if not self._playing().over:
            self._playing().finish("", gave_up=True)

    def _redraw(self, seed: int) -> None:
        if self.episode is not None:
            redraw_session(self.episode, seed)

    def chart(self) -> Chart:
        from ..rendering.chart import chart_of

        return chart_of(self._playing())

    def action_text(self, action: int | np.integer[Any]) -> str:
        if action in (self.recall_action, self.next_action):
            return "answer from memory" if action == self.recall_action else "next query"
        return f"call tool_{int(action):02d}"

    def describe_episode(self, steps: Sequence[Any]) -> EpisodeStory:
        from ..rendering.story import tool_story

        return tool_story(self._playing(), steps)
