"""What a leaderboard runs when it is asked for by name."""

from __future__ import annotations

from dataclasses import dataclass

from ..simulators.errors import UnknownName


@dataclass(frozen=True, slots=True)
class Suite:
    """A named leaderboard.

    Attributes:
        description: one line.
        agents: names, as `costgym agents` lists them.
        budgets: in the text form of `--budgets`.
        episodes: per agent and budget.
        scenario: the default scenario.
    """

    description: str
    agents: tuple[str, ...]
    budgets: str
    episodes: int
    scenario: str


SUITES = {
    "quick": Suite(
        "the default: baselines, ReAct and tree search with and without BTP, and the oracle, without any real model",
        ("random", "cheapest", "greedy", "react", "react+prompt", "react+btp", "dfsdt", "dfsdt+btp", "oracle"),
        "price=10,20,40",
        200,
        "marketplace",
    ),
}


def suite(name: str) -> Suite:
    """A suite by name; raises UnknownName with the nearest ones."""
    if name not in SUITES:
        raise UnknownName("suite", name, SUITES)
    return SUITES[name]
