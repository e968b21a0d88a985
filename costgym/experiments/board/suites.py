"""The named leaderboards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from costgym.agents.base import DECISION, NUMERIC, PLAN_CALLS, PLAN_CHAT, SESSION, TEXT
from costgym.agents.registry import find_agent
from costgym.agents.zoo.cards import is_zoo, zoo_names
from costgym.envs.registration import class_of, parameters_of
from costgym.experiments.board.conditions import PASS_RATE
from costgym.experiments.board.tracks import TRACKS
from costgym.simulators.errors import check_known

ALL_VIEWS = "*"

STEP_LIMIT = 400  # steps after which an episode is cut: far above any need, so that the budget decides
SHORT_STEP_LIMIT = 32  # the same for models that may call without end, of small contexts; `costgym train grpo` trains with it
_SIDE_BY_SIDE: dict[str, Any] = {"concurrent": True}
_ONE_DECISION: dict[str, Any] = {"concurrent": False}
"""Stated in every suite: a record without a form is one of calls side by side."""
_RECORDED = {ALL_VIEWS: {"enforcement": "record", "max_steps": STEP_LIMIT}, NUMERIC: _SIDE_BY_SIDE}
"""Overspending is recorded, not stopped; calls may run side by side in every view."""
_ENFORCED = {ALL_VIEWS: {"enforcement": "refuse", "max_steps": STEP_LIMIT}, NUMERIC: _ONE_DECISION}
"""A call that the budget does not cover is refused; in the numeric view a step is a call and its answer."""
_PLANS = {ALL_VIEWS: {"samples": "each"}, PLAN_CALLS: _SIDE_BY_SIDE}  # every sample is an episode; calls may run side by side
_VISION: dict[str, Any] = {
    "env": PLAN_CHAT,
    "tracks": ("plans",),
    "settings": _PLANS,
    "vary": {"alpha": (0.5,), "tasks": ("sequential", "nonsequential")},
    "ranked_by": "quality_of_plan",
}
"""What every world of vision planners has."""
_ONE_WORLD: dict[str, Any] = {
    "budgets": "price=15,30,60",
    "scenario": "one-world",
    "first_world": 1,
    "settings": _ENFORCED,
    "vary": {"scenario": ("one-world",)},  # rows name their world, since the track `text` has the same view
}
"""What every world in which the five papers meet has; its tokens cost what the world says."""
_BLIND_AND_CAREFUL = ("retry", "check-then-retry", "idempotent", "cheapest", "random", "oracle")
_STRATEGIES = ("react", "cot@5", "dfsdt", "tot-dfs", "plan-act")
_OF_A_MODEL = ("react", "react+btp", "react+ecoact", "dfsdt", "toolplanner")  # with which real models are compared


_FIVE_IDEAS = tuple(
    f"{strategy}{deer}{ecoact}{btp}"
    for strategy in ("react", "toolplanner", "catp-plan")
    for deer in ("", "+deer")
    for ecoact in (("", "+ecoact") if strategy != "catp-plan" else ("",))  # a plan is written from all documents
    for btp in ("", "+btp")
)


@dataclass(frozen=True, slots=True)
class SuiteWorld:
    """A world of a suite, and who plays in it. Agents are looked up in its tracks in their order; those of the zoo play only if
    asked for by name or option, see `add_shipped`."""

    agents: tuple[str, ...]
    budgets: str = ""  # in the text form of `--budgets`; empty for none
    episodes: int | None = None  # per agent and condition; None for every instance that the world has
    seeds: int = 1  # episodes of one task in a row, each under the next seed
    scenario: str = ""
    # the model whose tokens' prices the simulated model pays in version 0, from the dated table; version 1 has its own prices.
    # "" where tokens are free in both
    prices: str = ""
    world: int = 1  # version of the world, where the environments have it
    first_world: int = 0  # first version of the world that has the scenario
    env: str = TEXT
    tracks: tuple[str, ...] = ("text", "numbers")
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: _RECORDED)  # arguments, by id; `*`: all views
    vary: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # settings that vary within the run, and their values
    ranked_by: str = PASS_RATE  # the figure of a row that ranks it

    def views_with(self, argument: str) -> list[str]:
        """The views of the world's tracks that take an argument."""
        return [view for track in self.tracks for view in TRACKS[track].views if argument in parameters_of(view)]

    def settings_of(self, grading: str, documents: str | None) -> dict[str, dict[str, Any]]:
        """The arguments of the environments, by id, with those that a run chooses."""
        settings = {env_id: dict(values) for env_id, values in self.settings.items()}
        if class_of(self.env).gradings:
            settings.setdefault(ALL_VIEWS, {})["grading"] = grading
        for view in self.views_with("documents") if documents is not None else ():
            settings.setdefault(view, {})["documents"] = documents
        return settings


@dataclass(frozen=True, slots=True)
class Suite:
    """A named leaderboard."""

    name: str
    description: str
    worlds: tuple[SuiteWorld, ...]  # what is played; each of its tracks is ranked by itself


def _sessions(*agents: str, episodes: int) -> SuiteWorld:
    return SuiteWorld(
        agents,
        episodes=episodes,
        world=0,  # whose learnt agents saw version 0's observation
        env=SESSION,
        tracks=("sessions",),
        settings={ALL_VIEWS: {"enforcement": "refuse"}},
        ranked_by="value_share",
    )


def _with_every_access(*strategies: str) -> list[str]:
    return [f"{strategy}{access}" for strategy in strategies for access in ("", "+btp", "+ecoact")]


def _suite(name: str, description: str, *worlds: SuiteWorld) -> Suite:
    return Suite(name, description, worlds)


_ALL = (
    _suite(
        "quick",
        "the default: every system beside its plain form in seven tracks, one decision a step with numbers, no real model",
        SuiteWorld(
            (
                *_with_every_access(*_STRATEGIES), "toolplanner", "random", "cheapest", "greedy",
                "zoo:ppo", "zoo:lagrangian", "oracle-informed", "oracle",
            ),
            "price=15,30,60",
            160,
            seeds=4,
            scenario="marketplace",
            prices="gpt-4o-2024-05-13",
            settings=_ENFORCED,
        ),
        SuiteWorld(
            ("zero-shot", "few-shot", "hugginggpt", "hydra", "zoo:catp", "oracle-informed", "oracle"), episodes=120, **_VISION
        ),
        SuiteWorld(
            ("deer", "deer-rule", "zoo:deer"),
            "price=20",
            400,
            scenario="decision",
            world=0,
            env=DECISION,
            tracks=("decisions",),
            settings={ALL_VIEWS: {"enforcement": "refuse", "max_steps": STEP_LIMIT}},
        ),
        SuiteWorld(
            _BLIND_AND_CAREFUL,
            "price=40",
            160,
            seeds=4,
            scenario="marketplace-writes",
            env=NUMERIC,
            tracks=("writes",),
            settings=_ENFORCED,
            vary={"scenario": ("marketplace-writes",)},  # rows name their world, since the track `numbers` has the same view
        ),
        _sessions("do-nothing", "bayes-index", "paced", "optimistic", "zoo:sessions-v0", "informed-paced", episodes=60),
        SuiteWorld(
            (
                "react", "react+deer", "react+ecoact", "react+btp", "toolplanner", "catp-plan", "catp-plan+deer",
                "catp-plan+deer+btp",
            ),
            episodes=30,
            tracks=("one-world",),
            **_ONE_WORLD,
        ),
    ),
    _suite(
        "robustness",
        "the default's agents on a grid of failures, rate limits and latencies: what faults cost (fault_robustness)",
        SuiteWorld(
            (*_with_every_access("react", "dfsdt", "plan-act"), "random", "cheapest", "greedy", "oracle-informed"),
            "price=30;seconds=60",
            60,
            scenario="marketplace",
            prices="gpt-4o-2024-05-13",
            settings=_ENFORCED,
            vary={"failures": (0.0, 1.0, 3.0), "rate_limits": (0.0, 1.0, 20.0), "latency": (1.0, 4.0)},
        ),
    ),
    _suite(
        "btp",
        "BTP's own protocol: ReAct and DFSDT with and without BTP under recorded budgets, with free tokens",
        SuiteWorld(
            ("random", "cheapest", "greedy", "react", "react+prompt", "react+btp", "dfsdt", "dfsdt+btp", "oracle"),
            "price=10,20,40",
            200,
            scenario="marketplace",
        ),
    ),
    _suite(
        "one-world",
        "five papers' ideas in one world, each on and off: which pays, and do they add up?",
        SuiteWorld(
            (*_FIVE_IDEAS, "cheapest", "greedy", "oracle-informed", "oracle"),
            episodes=200,
            tracks=("one-world", "numbers"),
            **_ONE_WORLD,
        ),
    ),
    _suite(
        "small",
        "real language models, recorded, beside the simulated one: five candidates a task in short documents, with free tokens",
        SuiteWorld(
            (*_OF_A_MODEL, "random", "greedy", "oracle-informed", "oracle"),
            "price=20",
            100,
            scenario="marketplace-small",
            world=0,
            settings={**_ENFORCED, TEXT: {"documents": "short", "max_steps": SHORT_STEP_LIMIT}},
        ),
    ),
    _suite(
        "small-writes",
        "real language models on tasks that write, recorded, beside the simulated one, in short documents, with free tokens",
        SuiteWorld(
            (*_OF_A_MODEL, "retry", "check-then-retry", "oracle"),
            "price=40",
            100,
            scenario="marketplace-writes",
            world=0,
            settings={**_ENFORCED, TEXT: {"documents": "short", "max_steps": SHORT_STEP_LIMIT}},
        ),
    ),
    _suite(
        "writes",
        "who pays twice? Bookings, payments, refunds and tickets, where a call that timed out has happened or not",
        SuiteWorld(
            ("react", "react+btp", "react+ecoact", "dfsdt", "plan-act", *_BLIND_AND_CAREFUL),
            "price=40",
            200,
            scenario="marketplace-writes",
            prices="gpt-4o-2024-05-13",
            settings=_ENFORCED,
        ),
    ),
    _suite(
        "toolbench",
        "ReAct, DFSDT and ToT-DFS with and without BTP on ToolBench queries (--data FOLDER)",
        SuiteWorld(
            ("react", "react+prompt", "react+btp", "dfsdt", "dfsdt+btp", "tot-dfs", "tot-dfs+btp", "oracle"),
            "price=20",
            200,
            scenario="toolbench",
        ),
    ),
    _suite(
        "ecoact",
        "ReAct and DFSDT with and without registering tools by name; tokens are what costs",
        SuiteWorld(("react", "react+ecoact", "dfsdt", "dfsdt+ecoact"), "price=20", 200, scenario="marketplace"),
    ),
    _suite(
        "deer",
        "whether a query needs a tool, and whether one fits",
        SuiteWorld(("deer", "deer-rule"), "price=20", 1000, scenario="decision", world=0, env=DECISION, tracks=("decisions",)),
    ),
    _suite(
        "toolplanner",
        "instructions that name categories, tools and APIs: tree search beside planning by tags",
        SuiteWorld(
            ("dfsdt", "toolplanner", "toolplanner-no-tags", "toolplanner-no-path"),
            "price=20",
            400,
            scenario="marketplace",
            settings={**_RECORDED, TEXT: {"level": "hybrid"}},
        ),
    ),
    _suite(
        "opencatp",
        "planners over the vision tools of OpenCATP: score, price, time and Quality of Plan",
        SuiteWorld(
            (
                "oracle", "oracle-informed", "greedy", "hydra", "hugginggpt", "few-shot", "zero-shot", "fixed-all",
                "fixed-none", "random",
            ),
            **_VISION,
        ),
    ),
    _suite(
        "sessions",
        "sessions of a hundred queries under one budget: memory, pacing and exploration beside each other",
        _sessions(
            "do-nothing", "random", "greedy", "bayes-index", "bayes-memory", "thompson", "paced", "optimistic",
            "zoo:sessions-v0", "informed-paced", episodes=300,
        ),
    ),
)  # fmt: skip
SUITES = {suite.name: suite for suite in _ALL}


def suite(name: str) -> Suite:
    """A suite by name; raises UnknownName with the nearest ones."""
    check_known("suite", name, SUITES)
    return SUITES[name]


def playable(names: Sequence[str], model: str = "simulated", zoo: bool = False) -> tuple[str, ...]:
    """Return the agents of a suite that play by default with this model, whatever is installed. Agents of the zoo play if `zoo`
    says so; some agents know the simulated model only."""
    from costgym.agents.models.simulated import is_simulated

    return tuple(
        name
        for name in names
        if (zoo and name in zoo_names() if is_zoo(name) else is_simulated(model) or not find_agent(name).simulated)
    )
