"""Reproduce a paper's table: published results, our results of the same systems in this world, and the claims that hold.

Our results are measured with the simulated model, or with deciders without a model. They show whether a system's *effects*
follow, not how good a real model is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from ...agents.access import EcoAct
from ...agents.base import TEXT
from ...agents.llm.agent import LlmAgent
from ...agents.registry import make_agent
from ...agents.strategies import SearchSettings
from ...envs.base import base_env
from ...envs.registration import make
from ...simulators.errors import ConfigError, UnknownName
from ...simulators.scenario import Scenario, load_scenario
from ..files import iter_lines
from ..leaderboard.board import run as run_leaderboard
from ..leaderboard.metric_columns import figure, interval, is_simulated, plain, written
from ..leaderboard.run_config import make_run_config
from ..leaderboard.suites import STEP_LIMIT
from ..results import EpisodeResult
from ..rollout import play
from .claims import Results, btp_effects, ecoact_effects, toolplanner_effects
from .curves import curve_rows
from .decisions import decision_rows
from .instructions import instruction_rows, tag_rows
from .published import PUBLISHED, published

Row = dict[str, Any]
Progress = Callable[[int, int], None]
BTP_AGENTS = tuple(f"{base}{access}" for base in ("react", "dfsdt", "tot-dfs") for access in ("", "+prompt", "+btp"))
ECOACT_AGENTS = (
    "react", "react+ecoact", "react+ecoact-several", "react+ecoact-described", "dfsdt", "dfsdt+ecoact",
)  # fmt: skip
CANDIDATES = {"up to 10": (5, 10), "11 to 20": (11, 20), "more than 20": (21, 40)}
"""EcoAct's three scales: ranges of the number of candidate tools."""
ECOACT_SEARCH: dict[str, Any] = {"depth": 24}
"""Maximum chain length of EcoAct and its baselines. Source: EcoAct, Appendix B (24 steps instead of 12)."""
UNITS_PER_CENT = 10_000
"""EcoAct's cost counts the model's tokens only, so prices are in units so small that tool fees of 1 to 10 are negligible."""
GPT_4O = {"input": 500.0 * UNITS_PER_CENT, "output": 1500.0 * UNITS_PER_CENT}
"""Units per million tokens. Source: EcoAct's published script (5 and 15 USD per million)."""
DEFAULT_EPISODES = {"btp": 1000, "ecoact": 1000, "deer": 0, "toolplanner": 400}
"""Number of episodes per agent, each on a different task; 0 means all samples."""
NOTES = {
    "btp": "PBC, AC and RFBC count tool fees only, as in the paper. An effect without a grading does not depend on it.",
    "ecoact": "Cost counts the model's tokens only, at the paper's prices for gpt-4o.",
    "deer": (
        "The error rates of the simulated deciders are those of the paper's table, so their rows only check the scoring; "
        "deer-rule is measured."
    ),
    "toolplanner": "Match, Pass and Win are defined as in the paper; facts are also graded, by the judge and strictly.",
}


def reproduce(
    name: str,
    seed: int = 0,
    episodes: int | None = None,
    jobs: int = 1,
    data: str | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> dict[str, list[Row]]:
    """Compute our rows for a paper's table and return them with the published rows and the checked claims.

    Args:
        name: "btp", "ecoact", "deer" or "toolplanner".
        seed: seed of the run; the same seed gives the same rows.
        episodes: number of episodes per agent (and level, or scale), each on a different task; None for `DEFAULT_EPISODES`.
        jobs: number of processes for leaderboard runs.
        data: a ToolDEER folder; for "deer" only.
        out: folder of the leaderboard runs, which a later call continues; None for a temporary folder.
        progress: called with the number of finished steps and the number of all steps.

    Returns:
        ``{"paper": rows, "ours": rows, "effects": rows}``, for "btp" also ``"curves"``. Rows have the format of leaderboard
        rows; the paper's rows contain only the metrics that the paper reports. An effect has `claim`, `grading` (empty if
        the claim does not depend on it), `measured`, `follows` and `source`.

    Raises:
        UnknownName: the paper is not included.
        ConfigError: a number is out of range.
    """
    if name not in PUBLISHED:
        raise UnknownName("paper", name, PUBLISHED)
    if episodes is not None and (isinstance(episodes, bool) or not isinstance(episodes, int) or episodes < 1):
        raise ConfigError("--episodes", f"expected a positive whole number, got {episodes!r}")
    if data is not None and name != "deer":
        raise ConfigError("--data", "only deer takes a data folder")
    count = DEFAULT_EPISODES[name] if episodes is None else episodes
    found: dict[str, list[Row]]
    if name == "deer":
        found = {"ours": decision_rows(count or None, seed, data), "effects": []}
    elif name == "toolplanner":
        world = enlarged(load_scenario("marketplace"), count)
        ours = instruction_rows(count, seed, scenario=world) + tag_rows(count, seed, scenario=world)
        found = {"ours": ours, "effects": toolplanner_effects(ours)}
    elif out is not None:
        found = _RUNS[name](seed, count, jobs, Path(out), progress)
    else:
        with tempfile.TemporaryDirectory() as folder:
            found = _RUNS[name](seed, count, jobs, Path(folder), progress)
    return {"paper": published(name), **found}


def enlarged(scenario: Scenario, tasks: int) -> Scenario:
    """Return the scenario with at least the given number of test tasks."""
    source = scenario.source
    if source.kind != "marketplace" or source.test >= tasks:
        return scenario
    return scenario.model_copy(update={"source": source.model_copy(update={"test": tasks})})


def _btp(seed: int, episodes: int, jobs: int, out: Path, progress: Progress | None) -> dict[str, list[Row]]:
    """Reproduce BTP with the judge grading, which the paper uses, and with the strict grading for comparison."""
    scenario = enlarged(load_scenario("marketplace"), episodes)
    rows, results = _run(scenario, BTP_AGENTS, "price=20", seed, episodes, jobs, out / "btp", progress)
    own = {agent: played for agent, played in results.items() if not agent.endswith("+prompt")}
    experience = str(out / "btp" / "experience.jsonl")
    curves = curve_rows(scenario, own, experience, episodes, seed, jobs, progress)
    return {"ours": rows, "curves": curves, "effects": btp_effects(results, rows, curves, seed)}


def _ecoact(seed: int, episodes: int, jobs: int, out: Path, progress: Progress | None) -> dict[str, list[Row]]:
    rows: list[Row] = []
    scales: dict[str, Results] = {}
    for number, (scale, (low, high)) in enumerate(CANDIDATES.items()):
        scenario = enlarged(ecoact_scenario(low, high), episodes)
        place, budget = out / f"ecoact-{number}", f"price={1e9:.0f}"
        found, scales[scale] = _run(scenario, ECOACT_AGENTS, budget, seed, episodes, jobs, place, progress, ECOACT_SEARCH)
        plain_costs = {row["agent"]: row["average_cost"] for row in found}
        for row in found:
            base, _, access = row["agent"].partition("+")
            row["group"] = scale
            row["cost_change"] = row["average_cost"] / plain_costs[base] - 1.0 if plain_costs[base] else 0.0
            row["average_cost"] /= UNITS_PER_CENT
            if "average_cost" in row["ci95"]:
                row["ci95"]["average_cost"] = [end / UNITS_PER_CENT for end in row["ci95"]["average_cost"]]
            row["budget"] = {}
            if access:
                row["registered_share"] = registered_share(scenario, row["agent"], episodes, seed)
        rows += found
    return {"ours": rows, "effects": ecoact_effects(scales, rows, seed)}


_RUNS = {"btp": _btp, "ecoact": _ecoact}


def ecoact_scenario(low: int, high: int) -> Scenario:
    """Return the default scenario with a range of candidate tools per task and costs dominated by the model's tokens."""
    base = load_scenario("marketplace").model_dump()
    source = {**base["source"], "candidates": (low, high)}
    prices = {"tokens": GPT_4O, "max_price": 1e7, "currency": "1/10,000 cent"}
    return Scenario.model_validate({**base, **prices, "name": f"ecoact-{low}-{high}", "source": source})


def registered_share(scenario: Scenario, agent_name: str, episodes: int, seed: int) -> float:
    """Measure the share of candidate tools that are registered at the end of an episode, on a leaderboard's episodes."""
    env = make(
        TEXT, scenario=scenario, split="test", budget={}, enforcement="record", grading="judge",
        max_steps=STEP_LIMIT, disable_env_checker=True,
    )  # fmt: skip
    agent = make_agent(agent_name, search=SearchSettings(**ECOACT_SEARCH))
    assert isinstance(agent, LlmAgent)
    registered = offered = 0
    for index in range(episodes):
        number, world_seed, _ = base_env(env).instance(index, seed)
        play(env, agent, number, world_seed)
        assert agent.session is not None
        access = next(part for part in agent.session.access if isinstance(part, EcoAct))
        registered += len(access.registered)
        offered += len(agent.session.candidates)
    return registered / offered


def _run(
    scenario: Scenario,
    agents: Sequence[str],
    budgets: str,
    seed: int,
    episodes: int,
    jobs: int,
    out: Path,
    progress: Progress | None,
    search: Mapping[str, Any] | None = None,
) -> tuple[list[Row], Results]:
    """Run a leaderboard; return its rows in the order of the agents, and its episodes by agent."""
    config = make_run_config(
        "btp", scenario=scenario, agents=agents, budgets=budgets, episodes=episodes, grading="judge", seed=seed, search=search
    )
    document = run_leaderboard(config, out, jobs, progress).document
    order = {agent: place for place, agent in enumerate(agents)}
    results: dict[str, list[EpisodeResult]] = {agent: [] for agent in agents}
    for line in iter_lines(out / "episodes.jsonl"):
        result = EpisodeResult.from_json(line)
        results[result.agent].append(result)
    return sorted((dict(row) for row in document["rows"]), key=lambda row: order[row["agent"]]), results


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
        ("registered_share", "registered %", _SHARES),
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
        ("pass_rate", "facts, strict %", _SHARES),
        ("tag_precision", "tags P %", _SHARES),
        ("tag_recall", "R %", _SHARES),
        ("tag_f1", "F1 %", _SHARES),
    ),
}
"""Columns of each paper's table: metric, heading, and kind as in `columns`."""


_CURVES = (
    ("judged_pass_rate_under_budget", "PBC %", _SHARES),
    ("pass_rate_under_budget", "PBC strict %", _SHARES),
    ("average_cost", "AC", "number"),
)
_GROUPS = ("group", "split", "level", "curve", "at")


def tables(name: str, found: Mapping[str, Sequence[Row]]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Format the result of `reproduce` as tables of text: title, headings, rows. Effects are not included.

    Args:
        name: name of the paper.
        found: result of `reproduce`.
    """
    made = []
    for side in ("paper", "ours", "curves"):
        rows = found.get(side, [])
        columns = _CURVES if side == "curves" else _FIGURES[name]
        shown = [column for column in columns if any(figure(row, column[0]) is not None for row in rows)]
        keys = [key for key in _GROUPS if any(key in row for row in rows)]
        headings = [*keys, "agent", *[title for _, title, _ in shown]]
        lines = [
            [*[_group(row, key) for key in keys], plain(row["agent"]), *[_cell(row, metric, kind) for metric, _, kind in shown]]
            for row in rows
        ]
        if rows:
            made.append((f"{name}: {side}", headings, lines))
    return made


def effect_lines(effects: Sequence[Row]) -> list[list[str]]:
    """Format effects as rows of text: claim, grading, measured value, and whether the claim holds."""
    return [
        [plain(row["claim"]), row["grading"] or "–", plain(row["measured"]), "yes" if row["follows"] else "DOES NOT FOLLOW"]
        for row in effects
    ]


def print_reproduction(name: str, found: Mapping[str, Sequence[Row]], console: Console) -> None:
    """Print the paper's table, our table with 95 % intervals, and whether each effect follows.

    Args:
        name: name of the paper.
        found: result of `reproduce`.
        console: console to print on.
    """
    for title, headings, lines in tables(name, found):
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        names = headings.index("agent")
        for place, heading in enumerate(headings):
            table.add_column(heading, no_wrap=True, justify="left" if place <= names else "right")
        for line in lines:
            table.add_row(*line)
        console.print(table)
        rows = found[title.rpartition(" ")[2]]
        for source in dict.fromkeys(row["source"] for row in rows if "source" in row):
            console.print(f"source: {source}", style="dim", highlight=False)
        if any(is_simulated(row) for row in rows):
            console.print("ours: simulated model; compare effects, not absolute values", style="dim", highlight=False)
        console.print()
    if found.get("effects"):
        table = Table(title=f"{name}: effects", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for heading in ("claim", "grading", "measured", "follows"):
            table.add_column(heading)
        for line in effect_lines(found["effects"]):
            table.add_row(*line)
        console.print(table)
        console.print(verdict(found["effects"]), highlight=False)
    console.print(NOTES[name], style="dim", highlight=False)


def verdict(effects: Sequence[Row]) -> str:
    """Return a sentence with the number of effects that follow."""
    failing = sum(not row["follows"] for row in effects)
    return f"{len(effects) - failing} of {len(effects)} effects follow; {failing} do not."


def _group(row: Row, key: str) -> str:
    value = row.get(key, "")
    return f"{value:g}" if isinstance(value, float) else plain(value)


def _cell(row: Row, metric: str, kind: str) -> str:
    text = written(figure(row, metric), kind)
    ends = interval(row, metric)
    if ends is None:
        return text
    return f"{text} [{written(ends[0], kind)}, {written(ends[1], kind)}]"
