"""The methods of the baseline table, and what one run of a method is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ....agents.base import DECISION, NUMERIC, PLAN_CALLS, PLAN_CHAT, PLANS, SESSION

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
)
METHODS = {method.name: method for method in _ALL}


@dataclass(frozen=True, slots=True)
class Offer:
    """The rules and limits that an environment offers to the methods."""

    rules: Mapping[str, str]  # agents that play the rules there, by method
    cost_limit: float  # on the mean price of an episode, for constrained methods, in the environment's currency
    discrete: bool = True  # actions are discrete and masked, so that policies can be learnt


LIMIT_SHARE = 0.6  # limits are this share of the greedy rule's mean price over 400 train episodes, to one significant digit
_RULES = ("do-nothing", "random", "cheapest", "greedy", "bayes-index", "oracle-informed")
_PLANNERS = {name: name for name in ("do-nothing", "random", "greedy", "oracle-informed")}
OFFERS = {
    NUMERIC: Offer({name: name for name in _RULES}, 7.0),
    SESSION: Offer(
        {
            **{name: name for name in ("do-nothing", "random", "greedy", "bayes-index", "paced", "optimistic")},
            "oracle-informed": "informed-paced",
        },
        30.0,
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
