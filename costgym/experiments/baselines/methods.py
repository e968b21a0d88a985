"""The methods of the baseline table, what one run of a method is, and how agents are measured on the same test episodes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from costgym.agents.base import DECISION, NUMERIC, PLAN_CALLS, PLAN_CHAT, PLANS, SESSION, SESSION_1, Agent
from costgym.envs.base import base_env
from costgym.envs.registration import class_of, make, make_vec
from costgym.experiments.play.episodes import play
from costgym.simulators.errors import ConfigError, UnknownName
from costgym.simulators.marketplace.tasks import LARGE_SPLIT
from costgym.simulators.sessions.episode import SessionEpisode

Kind = Literal["rule", "online", "constrained", "offline"]


@dataclass(frozen=True, slots=True)
class Method:
    """A row of the table. A rule learns nothing; online methods learn in the environment, constrained ones under a limit on the
    mean cost as well, offline ones from recorded episodes alone."""

    name: str  # as `--methods` takes it
    kind: Kind
    what: str  # one line
    home: str = ""  # the only environment that has it; "" for one that others may have too


_ALL = (
    Method("do-nothing", "rule", "ends every episode at once, or as cheaply as it can"),
    Method("random", "rule", "random actions under the mask"),
    Method("cheapest", "rule", "for each missing fact the cheapest tool"),
    Method("greedy", "rule", "for each missing fact the best advertised value for its price"),
    Method("bayes-index", "rule", "the lowest price over the chance of success, inferred from adverts and its own calls"),
    Method(
        "paced", "rule", "in sessions, an index by a belief for each query, under a shadow price that follows spending", SESSION
    ),
    Method("optimistic", "rule", "in sessions, paced, with memory and an upper confidence bound", SESSION),
    Method("tuned", "rule", "in sessions of version 1, optimistic with constants chosen on train", SESSION),
    Method("oracle-informed", "rule", "knows how reliable, slow and limited each tool is: what returns are normalised by"),
    Method("ppo", "online", "sb3-contrib's MaskablePPO, default settings but a discount of 1"),
    Method(
        "ppo-tools", "online", "`costgym train ppo`: MaskablePPO on the native batch, with a network that reads tools as a set"
    ),
    Method("dqn", "online", "Stable-Baselines3's DQN, which knows no masks"),
    Method("ppo-lagrangian", "constrained", "MaskablePPO; the price of costs follows by dual ascent"),
    Method("pid-lagrangian", "constrained", "MaskablePPO; the price of costs is set by a PID controller"),
    Method("bc", "offline", "behaviour cloning under the mask"),
    Method("cql", "offline", "conservative Q-learning with discrete actions, under the mask"),
    Method("iql", "offline", "implicit Q-learning with discrete actions, under the mask"),
    Method("dt", "offline", "in sessions of version 1, a decision transformer told of the return to come", SESSION),
)
METHODS = {method.name: method for method in _ALL}


@dataclass(frozen=True, slots=True)
class Offer:
    """The rules and limits that an environment offers to the methods."""

    rules: Mapping[str, str]  # agents that play the rules there, by method
    cost_limit: float  # on the mean price of an episode, for constrained methods, in the environment's currency
    discrete: bool = True  # actions are discrete and masked, so that policies can be learnt
    # with --cost-limit, constrained methods play without the environment's own budget, and rules within the limit as theirs
    limits_replace_budget: bool = False


LIMIT_SHARE = 0.6  # limits are this share of the greedy rule's mean price over 400 train episodes, to one significant digit
_RULES = ("do-nothing", "random", "cheapest", "greedy", "bayes-index", "oracle-informed")
_SESSION_RULES = ("do-nothing", "random", "greedy", "bayes-index", "paced", "optimistic")
_PLANNERS = {name: name for name in ("do-nothing", "random", "greedy", "oracle-informed")}
OFFERS = {
    NUMERIC: Offer({name: name for name in _RULES}, 7.0),
    SESSION: Offer({name: name for name in _SESSION_RULES} | {"oracle-informed": "informed-paced"}, 30.0),
    SESSION_1: Offer(
        {name: name for name in (*_SESSION_RULES, "tuned")} | {"oracle-informed": "informed"}, 40.0, limits_replace_budget=True
    ),
    DECISION: Offer({"do-nothing": "do-nothing", "random": "random", "greedy": "deer-rule", "oracle-informed": "oracle"}, 2.0),
    PLAN_CALLS: Offer(_PLANNERS, 0.07),
    PLANS: Offer(_PLANNERS, 0.07),
    PLAN_CHAT: Offer(_PLANNERS, 0.07, discrete=False),
}


def lacks(env: str, method: str) -> str | None:
    """Say why a method cannot be run in an environment; None where it can."""
    offer = OFFERS.get(env)
    if offer is None:
        return "there are no baselines"
    if METHODS[method].kind == "rule":
        return None if method in offer.rules else "there is no such rule there"
    if not offer.discrete:
        return "its actions are texts"
    if method == "dt" and env != SESSION_1:
        return f"it learns in {SESSION_1} alone, which tells the return so far"
    return "it learns in costgym/Marketplace-v0 alone" if method == "ppo-tools" and env != NUMERIC else None


class Unit(NamedTuple):
    """A run of a method."""

    method: str  # its name
    env: str  # id of the environment
    level: str  # the scenario; "" where the environment has none
    seed: int  # of training; of the agent's own chance for a rule

    @property
    def file(self) -> str:
        """Name of the file that holds the run's record."""
        return f"{self.env.rpartition('/')[2]}.{self.level or 'default'}.{self.method}.{self.seed}.json"


Figures = dict[str, float]
Budget = Mapping[str, float]
Act = Callable[[Mapping[str, NDArray[Any]], Mapping[str, NDArray[Any]], NDArray[np.bool_]], NDArray[np.int64]]
"""Observations (N, ...), their `info` (N, ...) and whether an episode begins (N,), to actions (N,)."""


class BatchAgent(Agent):
    """A learnt policy that acts in N episodes at a time, as an agent that plays one."""

    def __init__(self, act: Act, env_id: str) -> None:
        self.act_together, self.env_id, self._begins = act, env_id, True

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._begins = True

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        shown: dict[str, NDArray[Any]] = {
            name: np.asarray(info[name])[None] for name in ("action_mask", "value") if name in info
        }
        begins, self._begins = np.array([self._begins]), False
        return int(self.act_together({name: part[None] for name, part in observation.items()}, shown, begins)[0])


def budget_of(method: str, env_id: str, cost_limit: float | None) -> Budget | None:
    """Choose the budget that a method plays with under a limit on the mean price; None is the environment's own."""
    kind, offer = METHODS[method].kind, OFFERS[env_id]
    if cost_limit is None or not offer.limits_replace_budget or kind not in ("rule", "constrained"):
        return None
    return {"price": cost_limit} if kind == "rule" else {}


def open_env(env_id: str, level: str, split: str, budget: Budget | None = None) -> gym.Env[Any, Any]:
    """Return an environment at a level, in its default form, or with a budget of one's own."""
    world: dict[str, Any] = {"scenario": level} if level and class_of(env_id).world_kind == "tools" else {}
    if budget is not None:
        world["budget"] = dict(budget)
    return make(env_id, split=split, disable_env_checker=True, **world)


def learning_split(env_id: str, level: str, wanted: str | None = None) -> str:
    """Choose the split whose tasks are learnt from: the wanted one, else `train-large` where the world makes tasks on demand,
    else `train`. Raises ConfigError if the environment has no such split at this level, or it is measured with."""
    name = wanted or LARGE_SPLIT
    if name == "test":
        raise ConfigError("--train-split", "expected a split other than test, whose tasks measure what was learnt, got 'test'")
    try:
        open_env(env_id, level, name).close()
    except (ConfigError, UnknownName) as error:
        if wanted is None:
            return "train"
        raise ConfigError("--train-split", f"expected a split of {env_id}, got {wanted!r}") from error
    return name


def measure(env: gym.Env[Any, Any], agent: Agent, episodes: int, seed: int | None = None, limit: float = inf) -> Figures:
    """Play the first test episodes, the same for every agent; returns the means of `success` (passed within the budget),
    `return` (Quality of Plan), `cost` (price) and `calls`, the share of episodes that cost more than the limit, and in sessions
    the share of the value. By default the agent's seed is derived from the episode."""
    if isinstance(agent, BatchAgent) and env.spec is not None and env.spec.id == SESSION_1:
        return _measure_together(env, agent, episodes, limit)
    world = base_env(env)
    played: list[Figures] = []
    for index in range(episodes):
        number, world_seed = world.instance(index, 0)[:2]
        view = play(env, agent, number, world_seed, None if seed is None else seed * episodes + index)
        assert view.grade is not None
        played.append(
            {
                "success": float(view.grade.strict and view.exceeded is None),
                "return": world.quality(),
                "cost": view.ledger.price,
                "calls": float(view.ledger.calls),
                "over_limit": float(view.ledger.price > limit),
            }
        )
        if isinstance(view, SessionEpisode):
            played[-1]["value_share"] = view.value_share
    return {name: sum(figures[name] for figures in played) / episodes for name in played[0]}


def _measure_together(env: gym.Env[Any, Any], agent: BatchAgent, episodes: int, limit: float) -> Figures:
    """The same in compiled code, all episodes side by side."""
    assert env.spec is not None
    world: Any = base_env(env)
    batch: Any = make_vec(env.spec.id, episodes, **env.spec.kwargs)
    observation: Any = None
    info: dict[str, Any] = {}
    for index in range(episodes):
        number, seed = world.instance(index, 0)[:2]
        options = {"reset_mask": np.arange(episodes) == index, "task": number}
        observation, info = batch.reset(seed=[seed] * episodes, options=options)
    # `info` holds the figures of the last one that began
    info = {**info, "action_mask": batch.action_masks(), "value": np.zeros(episodes)}
    sums = {name: np.zeros(episodes) for name in ("success", "return", "cost", "calls", "value_share")}
    playing, begins = np.ones(episodes, np.bool_), np.ones(episodes, np.bool_)
    while playing.any():
        observation, rewards, ended, cut, info = batch.step(agent.act_together(observation, info, begins))
        begins = np.zeros(episodes, np.bool_)
        for name, values in (("return", rewards), ("cost", info["cost_price"]), ("calls", info["cost_calls"])):
            sums[name] += playing * values
        # an episode that is cut off is judged by what it has reached, as `play` does
        passed = info["is_success"] | (cut & (info["value_share"] >= world.rules.success_share))
        for name, values in (("success", passed), ("value_share", info["value_share"])):
            sums[name] = np.where(playing, values, sums[name])
        playing &= ~(ended | cut)
    batch.close()
    return {name: float(values.mean()) for name, values in sums.items()} | {"over_limit": float((sums["cost"] > limit).mean())}
