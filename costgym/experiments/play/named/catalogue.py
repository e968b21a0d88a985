"""The named datasets: their worlds, and which policies play how many episodes of each.

A name has Minari's form ``costgym/WORLD/DATASET-v0``; ``costgym/WORLD/DATASET-flat-v0`` holds the same episodes with flat
observations.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from costgym.agents.base import NUMERIC, PLAN_CALLS, SESSION, Agent
from costgym.agents.oracle import ExpectedOptimumAgent
from costgym.agents.registry import make_agent
from costgym.agents.sessions.soft import SoftAgent
from costgym.agents.stages.policy import StageAgent, run_of
from costgym.simulators.errors import check_known

NAMESPACE = "costgym"
VERSION = "v0"
FLAT = "-flat"
EPISODES = 2_400  # episodes of each named dataset, but of sessions, which are a hundred times as long
COST_LIMIT = 10.0  # mean price of an episode that policies of the constrained world must keep, in credits
SESSION_1 = "costgym/MarketplaceSession-v1"
EPSILON = 0.2  # chance of any allowed action in the stochastic policies of sessions of version 1
SHARE = 0.8  # of every limit, which the policies of `under-budget` may use
EXPERT_MULTIPLIER = 0.035  # what a credit costs its expert beyond its price: with it the mean keeps `COST_LIMIT`


KINDS = ("random", "medium", "expert", "mixed", "replay")
SOFT_KINDS = ("random", "medium", "expert", "mixed", "under-budget")


@dataclass(frozen=True, slots=True)
class Family:
    """A world with its datasets, recorded in `env_id` with its arguments and evaluated on the split `test`."""

    name: str
    env_id: str
    arguments: Mapping[str, Any]
    summary: str  # one sentence about the world
    expert: Callable[[], Agent]  # makes the expert; its mean return on the test split is the normalised score 100
    expert_text: str
    medium: int  # the stage of the world's training run that plays `medium`, or the number of the rule in `rules`
    cost_limit: float | None = None  # mean cost that policies must keep, or None where there is no constraint
    rules: tuple[str, ...] = ()  # play instead of the stages of a training run
    # episodes of a dataset, and behind each reference score
    episodes: int = EPISODES
    references: int = 2_000
    infos: tuple[str, ...] = ()  # further infos of its datasets
    kinds: tuple[str, ...] = KINDS  # kinds of its datasets


@dataclass(frozen=True, slots=True)
class Part:
    """Episodes of one policy."""

    make: Callable[[], Agent]
    episodes: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """The contents of a named dataset."""

    dataset_id: str  # the name, with namespace and version
    family: Family
    flat: bool  # whether observations are vectors
    summary: str  # which policies played, in words
    parts: tuple[Part, ...] = field(repr=False)


FAMILIES = (
    Family(
        "marketplace",
        NUMERIC,
        {"split": "train", "budget": {"price": 20.0}},
        "The default marketplace: buy the facts of a query from priced, failing tools with at most 20 credits.",
        partial(make_agent, "oracle-informed", NUMERIC),
        "`oracle-informed`, which knows every tool's true reliability, not the luck of the episode; privileged, deterministic",
        2,
    ),
    Family(
        "marketplace-constrained",
        NUMERIC,
        {"split": "train", "budget": {}, "cost": "price"},
        f"The marketplace as a constrained problem: no episode has a limit, the mean price of episodes must be at most "
        f"{COST_LIMIT:g} credits.",
        partial(ExpectedOptimumAgent, EXPERT_MULTIPLIER),
        f"`oracle-informed` that charges itself {EXPERT_MULTIPLIER:g} for each credit, so that it keeps the limit; privileged, "
        "deterministic",
        2,
        COST_LIMIT,
    ),
    Family(
        "opencatp-calls",
        PLAN_CALLS,
        {"split": "train", "tasks": "all"},
        "OpenCATP call by call: run vision tools on images and texts, priced by time and memory.",
        partial(make_agent, "oracle-informed", PLAN_CALLS),
        "`oracle-informed`, the best fixed plan for each task and size level on the train samples; privileged, deterministic",
        1,
    ),
    Family(
        "sessions",
        SESSION,
        {"split": "train"},
        "Sessions of a hundred queries over tools that drift, under one budget of money and time.",
        partial(make_agent, "informed-paced", SESSION),
        "`informed-paced`, which knows every tool's present regime, not the luck of the session; privileged, deterministic",
        3,
        rules=("random", "greedy", "bayes-index", "paced", "optimistic"),
        episodes=240,
        references=300,
        infos=("budget_remaining_price", "budget_remaining_seconds"),
    ),
    Family(
        "sessions-v1",
        SESSION_1,
        {"split": "train"},
        "Sessions of version 1, level `medium`: a hundred queries over tools that drift, under one budget of money and time.",
        partial(make_agent, "informed", SESSION_1),
        "`informed`, which knows all regimes, prices and queries, those to come too, not the luck of calls; privileged, "
        "deterministic",
        1,
        rules=("random", "paced"),
        episodes=240,
        references=300,
        infos=("budget_remaining_price", "budget_remaining_seconds"),
        kinds=SOFT_KINDS,
    ),
)


def family_of(name: str) -> Family:
    """The world of this name; raises UnknownName if there is none; names the nearest."""
    known = {family.name: family for family in FAMILIES}
    check_known("world of named datasets", name, known)
    return known[name]


def dataset_names(flat: bool = False) -> list[str]:
    """The ids of the named datasets, or of their flat variants."""
    end = FLAT if flat else ""
    return [f"{NAMESPACE}/{family.name}/{kind}{end}-{VERSION}" for family in FAMILIES for kind in family.kinds]


def recipe_of(dataset_id: str) -> Recipe:
    """Return the contents of the dataset of this name; raises UnknownName if there is no such dataset; names the nearest."""
    known = [*dataset_names(), *dataset_names(flat=True)]
    check_known("named dataset", dataset_id, known)
    _, world, name = dataset_id.split("/")
    name = name.removesuffix(f"-{VERSION}")
    family = family_of(world)
    summary, parts = _parts(family, name.removesuffix(FLAT))
    return Recipe(dataset_id, family, name.endswith(FLAT), summary, parts)


def _parts(family: Family, kind: str) -> tuple[str, tuple[Part, ...]]:
    """The policies of a kind of dataset, in words and as parts."""
    if family.kinds == SOFT_KINDS:
        return _soft_parts(family, kind)
    stages: list[Callable[[], Agent]]
    if family.rules:
        stages = [partial(make_agent, name, family.env_id) for name in family.rules]
        after = f"the rule `{family.rules[family.medium]}`"
        replay = f"the rules {', '.join(f'`{name}`' for name in family.rules)}"
    else:
        steps = [f"{count:,}" for count in run_of(family.name)["steps"]]
        stages = [partial(StageAgent, family.name, stage) for stage in range(len(steps))]
        after = f"the stochastic policy of a MaskablePPO run after {steps[family.medium]} decisions"
        replay = f"the stochastic policies that one MaskablePPO run had after {', '.join(steps[:-1])} and {steps[-1]} decisions"
    random, medium, expert = partial(make_agent, "random", family.env_id), stages[family.medium], family.expert
    chosen: dict[str, tuple[str, tuple[Callable[[], Agent], ...]]] = {
        "random": ("Actions drawn uniformly from those that the mask allows.", (random,)),
        "medium": (f"{after[0].upper()}{after[1:]}.", (medium,)),
        "expert": (f"The expert: {family.expert_text}.", (expert,)),
        "mixed": (f"A third each of random actions, of {after}, and of the expert.", (random, medium, expert)),
        "replay": (f"Equal parts of {replay}.", tuple(stages)),
    }
    summary, makers = chosen[kind]
    return summary, tuple(Part(make, family.episodes // len(makers)) for make in makers)


def soft(family: Family, name: str, share: float = 1.0) -> Agent:
    """A rule for sessions as the stochastic policy that datasets of version 1 are played by."""
    return SoftAgent(make_agent(name, family.env_id), EPSILON, share)


def _soft_parts(family: Family, kind: str) -> tuple[str, tuple[Part, ...]]:
    """The same for datasets whose probabilities off-policy estimates can use, and one whose sessions keep every limit."""
    any_action = f"any allowed action with the chance {EPSILON:g}, each as likely"
    random, medium, expert = partial(make_agent, "random", family.env_id), partial(soft, family, "paced"), family.expert
    explored = partial(soft, family, "informed")
    tight = partial(soft, family, "paced", SHARE), partial(soft, family, "informed", SHARE)
    chosen: dict[str, tuple[str, tuple[Callable[[], Agent], ...]]] = {
        "random": ("Actions drawn uniformly from those that the mask allows.", (random,)),
        "medium": (f"The rule `paced`, and {any_action}.", (medium,)),
        "expert": (f"The expert: {family.expert_text}.", (expert,)),
        "mixed": (f"A third each of random actions, of `paced` and of `informed`; the last two play {any_action}.",
                  (random, medium, explored)),
        "under-budget": (f"A half each of `paced` and `informed`, which play {any_action}, and make no call after {SHARE:.0%} "
                         "of the money or of the time, so that few run out of money or time.", tight),
    }  # fmt: skip
    summary, makers = chosen[kind]
    return summary, tuple(Part(make, family.episodes // len(makers)) for make in makers)
