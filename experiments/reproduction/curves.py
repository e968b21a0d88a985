"""BTP as a function of the budget R and of the threshold tau: rows of the paper's two figures, and a plot of them.

Agents without BTP do not observe the budget and are not stopped by it, so their episodes at R = 20 also give the results at
every other R. Agents with BTP play new episodes at every point.

Source: BTP (arXiv 2402.15960), Sections 3.4 and 3.5, Figures 2 and 3.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

from ...agents.base import TEXT
from ...agents.btp.plan import BtpSettings
from ...agents.registry import make_agent
from ...envs.registration import make
from ...simulators.ledger import Budget
from ...simulators.scenario import Scenario
from ..leaderboard.suites import STEP_LIMIT
from ..metrics import summarise
from ..reports.charts import Panel, Series, panels
from ..results import EpisodeResult
from ..rollout import play_many

BUDGETS = (5.0, 10.0, 15.0, 20.0, 30.0, 40.0)
THRESHOLDS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
BUDGET, THRESHOLD = 20.0, 0.15
"""Budget and threshold that are fixed while the other one varies."""
FIGURES = (
    "judged_pass_rate_under_budget",
    "pass_rate_under_budget",
    "average_cost",
    "judged_pass_rate",
    "pass_rate",
    "budget_failure_rate",
)
Row = dict[str, Any]
Point = tuple[str, str, float, str]
"""Agent, curve, position on the curve, and path of the experience."""


def curve_rows(
    scenario: Scenario,
    results: Mapping[str, Sequence[EpisodeResult]],
    experience: str,
    episodes: int,
    seed: int,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
    budgets: Sequence[float] = BUDGETS,
    thresholds: Sequence[float] = THRESHOLDS,
) -> list[Row]:
    """Compute one row per agent and point: `curve` ("R" or "tau"), `at`, and the metrics with their intervals.

    Args:
        scenario: scenario with the judge grading.
        results: episodes of all agents at R = 20.
        experience: file of past tool uses, for BTP.
        episodes: number of episodes per point.
        seed: seed of the worlds; must be the seed of `results`.
        jobs: number of processes; the rows do not depend on it.
        progress: called with the number of finished points and the number of all points that are played.
        budgets, thresholds: points of the two curves.
    """
    bases = [name for name in results if "+" not in name]
    found: dict[Point, list[EpisodeResult]] = {}
    for agent in bases:
        for budget in budgets:
            found[agent, "R", budget, experience] = [_within(result, budget) for result in results[agent]]
    points: list[Point] = [(f"{base}+btp", "R", budget, experience) for base in bases for budget in budgets if budget != BUDGET]
    points += [(f"{base}+btp", "tau", at, experience) for base in bases for at in thresholds if at != THRESHOLD]
    for base in bases:
        agent = f"{base}+btp"
        found[agent, "R", BUDGET, experience] = found[agent, "tau", THRESHOLD, experience] = list(results[agent])
    for number, (point, played) in enumerate(_play(points, scenario, episodes, seed, jobs), 1):
        found[point] = played
        if progress is not None:
            progress(number, len(points))
    wanted = {"R": budgets, "tau": thresholds}
    order = {name: place for place, name in enumerate(results)}
    keys = [key for key in found if key[2] in wanted[key[1]]]
    return [_row(key, found[key], seed) for key in sorted(keys, key=lambda key: (key[1], order[key[0]], key[2]))]


def _within(result: EpisodeResult, budget: float) -> EpisodeResult:
    return replace(result, budget={"price": budget}, exceeded="price" if result.price > budget else None)


def _row(point: Point, results: Sequence[EpisodeResult], seed: int) -> Row:
    row = summarise(results, "judge", seed=seed)
    ends = {name: row["ci95"][name] for name in FIGURES if name in row["ci95"]}
    figures = {name: row[name] for name in FIGURES}
    return {
        "curve": point[1], "at": point[2], "agent": point[0], "model": row["model"], "budget": row["budget"],
        "episodes": row["episodes"], "grading": "judge", **figures, "ci95": ends,
    }  # fmt: skip


def _play(
    points: Sequence[Point], scenario: Scenario, episodes: int, seed: int, jobs: int
) -> Iterator[tuple[Point, list[EpisodeResult]]]:
    document = scenario.model_dump_json()
    if jobs == 1 or episodes * len(points) < 1000:
        for point in points:
            yield point, [EpisodeResult.from_json(line) for line in _episodes(document, point, episodes, seed)]
        return
    with ProcessPoolExecutor(min(jobs, len(points)), mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(_episodes, document, point, episodes, seed) for point in points]
        for point, future in zip(points, futures, strict=True):
            yield point, [EpisodeResult.from_json(line) for line in future.result()]


def _episodes(document: str, point: Point, episodes: int, seed: int) -> list[str]:
    """Play the episodes of a point and return them as JSON text, which is cheap to send between processes."""
    agent_name, curve, at, experience = point
    budget = Budget(price=at if curve == "R" else BUDGET)
    settings = BtpSettings(threshold=at) if curve == "tau" else None
    agent = make_agent(agent_name, experience=experience, btp=settings)
    env = make(
        TEXT, scenario=Scenario.model_validate_json(document), split="test", budget=budget.as_dict(), enforcement="record",
        grading="judge", max_steps=STEP_LIMIT, disable_env_checker=True,
    )  # fmt: skip
    return [result.to_json() for result, _ in play_many(env, agent, TEXT, range(episodes), seed)]


# -- the plot ----------------------------------------------------------------------------------------------------------------


def curves_svg(rows: Sequence[Row]) -> str:
    """Plot PBC and average cost over R and over tau as an SVG with four panels; solid lines with BTP, dashed lines without."""
    bases = list(dict.fromkeys(str(row["agent"]).partition("+")[0] for row in rows))
    grid = []
    figures = (("judged_pass_rate_under_budget", "PBC, judge, %", 100.0), ("average_cost", "average cost", 1.0))
    for metric, title, scale in figures:
        line = []
        for curve, label in (("R", "budget R"), ("tau", "threshold τ")):
            shown = [row for row in rows if row["curve"] == curve]
            if metric == "average_cost":
                shown = [row for row in shown if row["agent"].endswith("+btp")]
            line.append(Panel(title, label, _series(shown, metric, scale, bases)))
        grid.append(line)
    return panels(grid)


def _series(rows: Sequence[Row], metric: str, scale: float, bases: Sequence[str]) -> list[Series]:
    found = []
    for agent in dict.fromkeys(str(row["agent"]) for row in rows):
        points = sorted((row["at"], row[metric] * scale) for row in rows if row["agent"] == agent)
        xs, ys = [at for at, _ in points], [value for _, value in points]
        found.append(Series(agent, xs, ys, bases.index(agent.partition("+")[0]), dashed=not agent.endswith("+btp")))
    return found
