"""A paper's table beside ours: the published figures, and what the same systems do in this world.

Ours come from the simulated model (and from deciders without a model), so they say whether a system's *effects* follow, never
how good a real model is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from ..simulators.errors import ConfigError, UnknownName
from ..simulators.scenario import Scenario, load_scenario
from . import leaderboard
from .columns import figure, interval, is_simulated, plain, written
from .decisions import decision_rows
from .instructions import instruction_rows, tag_rows
from .published import PUBLISHED, published

Row = dict[str, Any]
Progress = Callable[[int, int], None]
BTP_AGENTS = tuple(f"{base}{access}" for base in ("react", "dfsdt", "tot-dfs") for access in ("", "+prompt", "+btp"))
ECOACT_AGENTS = ("react", "react+ecoact", "dfsdt", "dfsdt+ecoact")
CANDIDATES = {"up to 10": (5, 10), "11 to 20": (11, 20), "more than 20": (21, 40)}
"""EcoAct's three scales of candidate tools."""
UNITS_PER_CENT = 10_000
"""EcoAct counts the model's tokens alone: prices are in such small units that the tools' own fees of 1 to 10 do not show."""
GPT_4O = {"input": 500.0 * UNITS_PER_CENT, "output": 1500.0 * UNITS_PER_CENT}
"""Units per million tokens. Source: EcoAct's published script, 5 and 15 USD per million."""
DEFAULT_EPISODES = {"btp": 1000, "ecoact": 400, "deer": 0, "toolplanner": 400}
"""Episodes per agent; 0 stands for every sample there is."""


def reproduce(
    name: str,
    seed: int = 0,
    episodes: int | None = None,
    jobs: int = 1,
    data: str | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> dict[str, list[Row]]:
    """A paper's rows and ours.

    Args:
        name: "btp", "ecoact", "deer" or "toolplanner".
        seed: same seed, same rows.
        episodes: per agent (and level, or scale); None for as many as `DEFAULT_EPISODES` says.
        jobs: processes, where a leaderboard is run.
        data: a ToolDEER folder, for "deer".
        out: folder that keeps the leaderboard runs, so that a later call continues them; None for a temporary one.
        progress: called with the numbers of finished and of all steps.

    Returns:
        ``{"paper": rows, "ours": rows}``; rows have the shape of leaderboard rows, figures as far as the paper gives them.

    Raises:
        UnknownName: there is no such paper.
        ConfigError: a number makes no sense.
    """
    if name not in PUBLISHED:
        raise UnknownName("paper", name, PUBLISHED)
    if episodes is not None and (isinstance(episodes, bool) or not isinstance(episodes, int) or episodes < 1):
        raise ConfigError("--episodes", f"expected a positive whole number, got {episodes!r}")
    if data is not None and name != "deer":
        raise ConfigError("--data", "only deer reads a folder")
    count = DEFAULT_EPISODES[name] if episodes is None else episodes
    if name == "deer":
        ours = decision_rows(count or None, seed, data)
    elif name == "toolplanner":
        ours = instruction_rows(count, seed) + tag_rows(count, seed)
    elif out is not None:
        ours = _runs(name, seed, count, jobs, Path(out), progress)
    else:
        with tempfile.TemporaryDirectory() as folder:
            ours = _runs(name, seed, count, jobs, Path(folder), progress)
    return {"paper": published(name), "ours": ours}


def _runs(name: str, seed: int, episodes: int, jobs: int, out: Path, progress: Progress | None) -> list[Row]:
    """The leaderboards behind BTP's and EcoAct's tables, under the judge grading that the papers use; strict stands beside."""
    if name == "btp":
        return _run(load_scenario("marketplace"), BTP_AGENTS, "price=20", seed, episodes, jobs, out / "btp", progress)
    rows: list[Row] = []
    for number, (scale, (low, high)) in enumerate(CANDIDATES.items()):
        scenario = ecoact_scenario(low, high)
        found = _run(scenario, ECOACT_AGENTS, f"price={1e9:.0f}", seed, episodes, jobs, out / f"ecoact-{number}", progress)
        plain_costs = {row["agent"]: row["average_cost"] for row in found}
        for row in found:
            base = plain_costs[row["agent"].removesuffix("+ecoact")]
            row["group"] = scale
            row["cost_change"] = row["average_cost"] / base - 1.0 if base else 0.0
            row["average_cost"] /= UNITS_PER_CENT
            if "average_cost" in row["ci95"]:
                row["ci95"]["average_cost"] = [end / UNITS_PER_CENT for end in row["ci95"]["average_cost"]]
            row["budget"] = {}
        rows += found
    return rows


def ecoact_scenario(low: int, high: int) -> Scenario:
    """The default world with so many candidate tools a task, in which the model's tokens are what costs."""
    base = load_scenario("marketplace").model_dump()
    source = {**base["source"], "candidates": (low, high)}
    prices = {"tokens": GPT_4O, "max_price": 1e7, "currency": "1/10,000 cent"}
    return Scenario.model_validate({**base, **prices, "name": f"ecoact-{low}-{high}", "source": source})


def _run(
    scenario: Scenario,
    agents: Sequence[str],
    budgets: str,
    seed: int,
    episodes: int,
    jobs: int,
    out: Path,
    progress: Progress | None,
) -> list[Row]:
    plan = leaderboard.make_plan(
        "quick", scenario=scenario, agents=agents, budgets=budgets, episodes=episodes, grading="judge", seed=seed
    )
    document = leaderboard.run(plan, out, jobs, progress).document
    order = {agent: place for place, agent in enumerate(agents)}
    return sorted((dict(row) for row in document["rows"]), key=lambda row: order[row["agent"]])


# -- printing ------------------------------------------------------------------------------------------------------------

_SHARES = "rate"
_FIGURES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "btp": (
        ("judged_pass_rate_under_budget", "PBC %", _SHARES),
        ("average_cost", "AC", "number"),
        ("judged_pass_rate", "PR %", _SHARES),
        ("budget_failure_rate", "RFBC %", _SHARES),
        ("pass_rate_under_budget", "PBC strict %", _SHARES),
        ("pass_rate", "PR strict %", _SHARES),
    ),
    "ecoact": (
        ("judged_pass_rate", "PR %", _SHARES),
        ("average_cost", "cost, ¢", "number"),
        ("cost_change", "change %", _SHARES),
        ("average_tokens", "tokens", "count"),
        ("pass_rate", "PR strict %", _SHARES),
    ),
    "deer": tuple(
        (key, f"{title} %", _SHARES)
        for key, title in zip(
            ("p_no_search", "p_search", "p_ds", "p_no_call", "p_call", "p_dc"),
            ("NoSearch", "Search", "DS", "NoCall", "Call", "DC"),
            strict=True,
        )
    ),
    "toolplanner": (
        ("match_rate", "Match %", _SHARES),
        ("meaningful_rate", "Pass %", _SHARES),
        ("win_rate", "Win %", _SHARES),
        ("judged_pass_rate", "facts, judged %", _SHARES),
        ("tag_precision", "tags P %", _SHARES),
        ("tag_recall", "R %", _SHARES),
        ("tag_f1", "F1 %", _SHARES),
    ),
}
"""Figures of each paper's table: metric, heading, kind as in `columns`."""


def print_reproduction(name: str, found: dict[str, list[Row]], console: Console) -> None:
    """Print the paper's table, then ours with 95 % intervals, and what model ours is from.

    Args:
        name: of the paper.
        found: from `reproduce`.
        console: where to.
    """
    columns = _FIGURES[name]
    for side, rows in found.items():
        shown = [column for column in columns if any(figure(row, column[0]) is not None for row in rows)]
        table = Table(title=f"{name}: {side}", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        grouped = [key for key in ("group", "split", "level") if any(key in row for row in rows)]
        for key in grouped:
            table.add_column(key, no_wrap=True)
        table.add_column("agent", no_wrap=True)
        for _, title, _ in shown:
            table.add_column(title, justify="right", no_wrap=True)
        for row in rows:
            cells = [_cell(row, metric, kind) for metric, _, kind in shown]
            table.add_row(*[plain(row.get(key, "")) for key in grouped], plain(row["agent"]), *cells)
        console.print(table)
        sources = dict.fromkeys(row["source"] for row in rows if "source" in row)
        for source in sources:
            console.print(f"source: {source}", style="dim", highlight=False)
        if any(is_simulated(row) for row in rows):
            console.print("ours: a simulated model; effects count, not levels", style="dim", highlight=False)
        console.print()


def _cell(row: Row, metric: str, kind: str) -> str:
    text = written(figure(row, metric), kind)
    ends = interval(row, metric)
    if ends is None:
        return text
    return f"{text} [{written(ends[0], kind)}, {written(ends[1], kind)}]"
