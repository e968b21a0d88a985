"""The named leaderboards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...agents.base import TEXT
from ...simulators.errors import UnknownName
from .conditions import PASS_RATE

STEP_LIMIT = 400
"""Steps after which an episode is cut: far above what any agent needs, so that the budget, not the limit, decides."""
_RECORDED = {"*": {"enforcement": "record", "max_steps": STEP_LIMIT}}
"""Overspending is recorded, not stopped."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A named leaderboard.

    Attributes:
        name, description: one line.
        agents: names, as `costgym agents` lists them.
        budgets: in the text form of `--budgets`; empty for none.
        episodes: per agent and condition; None for every instance that the world has.
        scenario: the default scenario of a tool world.
        env: the environment in which the agents' names are looked up.
        settings: further arguments of the environments, by id; those of `*` are for all views.
        vary: settings that vary within the run, and their values.
        ranked_by: the figure of a row that ranks it.
    """

    name: str
    description: str
    agents: tuple[str, ...]
    budgets: str = ""
    episodes: int | None = None
    scenario: str = ""
    env: str = TEXT
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: _RECORDED)
    vary: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    ranked_by: str = PASS_RATE


_ALL = (
    Suite(
        "quick",
        "the default: baselines, ReAct and tree search with and without BTP, and the oracle, without any real model",
        ("random", "cheapest", "greedy", "react", "react+prompt", "react+btp", "dfsdt", "dfsdt+btp", "oracle"),
        "price=10,20,40",
        200,
        "marketplace",
    ),
    Suite(
        "toolbench",
        "ReAct, DFSDT and ToT-DFS with and without BTP on ToolBench queries (--data FOLDER)",
        ("react", "react+prompt", "react+btp", "dfsdt", "dfsdt+btp", "tot-dfs", "tot-dfs+btp", "oracle"),
        "price=20",
        200,
        "toolbench",
    ),
    Suite(
        "ecoact",
        "ReAct and DFSDT with and without registering tools by name; tokens are what costs",
        ("react", "react+ecoact", "dfsdt", "dfsdt+ecoact"),
        "price=20",
        200,
        "marketplace",
    ),
    Suite(
        "deer",
        "whether a query needs a tool, and whether one fits",
        ("deer", "deer-rule"),
        "price=20",
        1000,
        "decision",
    ),
    Suite(
        "toolplanner",
        "instructions that name categories, tools and APIs: tree search beside planning by tags",
        ("dfsdt", "toolplanner", "toolplanner-no-tags", "toolplanner-no-path"),
        "price=20",
        400,
        "marketplace",
        settings={**_RECORDED, TEXT: {"level": "hybrid"}},
    ),
    Suite(
        "opencatp",
        "planners over the vision tools of OpenCATP: score, price, time and Quality of Plan",
        (
            "oracle",
            "oracle-informed",
            "greedy",
            "hydra",
            "hugginggpt",
            "few-shot",
            "zero-shot",
            "fixed-all",
            "fixed-none",
            "random",
        ),
        env="costgym/OpenCATPChat-v0",
        settings={"*": {"samples": "each"}},
        vary={"alpha": (0.5,), "tasks": ("sequential", "nonsequential")},
        ranked_by="quality_of_plan",
    ),
)
SUITES = {suite.name: suite for suite in _ALL}


def suite(name: str) -> Suite:
    """A suite by name; raises UnknownName with the nearest ones."""
    if name not in SUITES:
        raise UnknownName("suite", name, SUITES)
    return SUITES[name]
