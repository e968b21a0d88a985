"""What a leaderboard runs when it is asked for by name."""

from __future__ import annotations

from dataclasses import dataclass

from ...simulators.errors import UnknownName


@dataclass(frozen=True, slots=True)
class Suite:
    """A named leaderboard.

    Attributes:
        description: one line.
        agents: names, as `costgym agents` lists them.
        budgets: in the text form of `--budgets`.
        episodes: per agent and budget.
        scenario: the default scenario.
        settings: further arguments of the text view.
    """

    description: str
    agents: tuple[str, ...]
    budgets: str
    episodes: int
    scenario: str
    settings: tuple[tuple[str, str], ...] = ()


SUITES = {
    "quick": Suite(
        "the default: baselines, ReAct and tree search with and without BTP, and the oracle, without any real model",
        ("random", "cheapest", "greedy", "react", "react+prompt", "react+btp", "dfsdt", "dfsdt+btp", "oracle"),
        "price=10,20,40",
        200,
        "marketplace",
    ),
    "toolbench": Suite(
        "ReAct, DFSDT and ToT-DFS with and without BTP on ToolBench queries (--data FOLDER)",
        ("react", "react+prompt", "react+btp", "dfsdt", "dfsdt+btp", "tot-dfs", "tot-dfs+btp", "oracle"),
        "price=20",
        200,
        "toolbench",
    ),
    "ecoact": Suite(
        "ReAct and DFSDT with and without registering tools by name; tokens are what costs",
        ("react", "react+ecoact", "dfsdt", "dfsdt+ecoact"),
        "price=20",
        200,
        "marketplace",
    ),
    "deer": Suite("whether a query needs a tool, and whether one fits", ("deer", "deer-rule"), "price=20", 1000, "decision"),
    "toolplanner": Suite(
        "instructions that name categories, tools and APIs: tree search beside planning by tags",
        ("dfsdt", "toolplanner", "toolplanner-no-tags", "toolplanner-no-path"),
        "price=20",
        400,
        "marketplace",
        (("level", "hybrid"),),
    ),
}


def suite(name: str) -> Suite:
    """A suite by name; raises UnknownName with the nearest ones. The suite `opencatp` is one of planners: see `plans`."""
    if name not in SUITES:
        raise UnknownName("suite", name, [*SUITES, "opencatp"])
    return SUITES[name]
