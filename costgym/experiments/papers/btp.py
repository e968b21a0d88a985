"""BTP: does planning the uses of tools within a budget raise the passes within it?

An agent may spend 20 on tools that cost 1 to 10 each. BTP plans from past uses how often each candidate may be called, a
bounded knapsack, and refuses every other call. It stands beside its plain form at R = 20, and over the budget R, the threshold
tau and the number of past uses. Passes are judged as in the paper, and strictly for comparison.

Source: BTP (arXiv 2402.15960), Sections 3.1 to 3.5, Tables 2 to 4, Figures 2 and 3, Appendix A; where the paper does not say
it, its published code. The curve over past uses is ours.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from costgym.agents.base import TEXT
from costgym.agents.btp.access import Btp
from costgym.agents.btp.plan import BtpSettings
from costgym.agents.llm.strategies import SearchSettings
from costgym.agents.registry import make_agent
from costgym.experiments.pages.charts import Panel, Series, panels
from costgym.experiments.papers.claims import (
    ALIKE,
    PASSES,
    Results,
    difference_in_points,
    effect,
    interval_ends,
    levels_of,
    paired_means,
    printed,
    two_sided,
)
from costgym.experiments.papers.paper import BOARD, CHATGPT, PUBLISHED, Job, Paper, Protocol, Row, Tables
from costgym.experiments.papers.pictures import curve
from costgym.experiments.papers.playing import (
    BUDGET,
    enlarged,
    market,
    play_board,
    play_pieces,
    play_protocols,
    play_sessions,
    text_env,
)
from costgym.experiments.play.episodes import play_many
from costgym.experiments.play.execution.engine import Local
from costgym.experiments.play.experience import ExperienceSettings, describe_experience, first_uses, past_uses
from costgym.experiments.play.metrics import summarise
from costgym.experiments.play.results import EpisodeResult
from costgym.simulators.files import write_atomically
from costgym.simulators.scenario import Scenario

# -- protocol ----------------------------------------------------------------------------------------------------------------

BASES = ("react", "dfsdt", "tot-dfs")
EXPLORED = ExperienceSettings(candidates=16)
"""BTP's past uses come from training queries with candidates of their own, whatever the test queries offer."""
PROTOCOLS = (
    Protocol(
        PUBLISHED,
        "5 candidates; depth counted in nodes (12 of them, ToT-DFS 8), with thoughts as seldom as ChatGPT's; 200 replies "
        "(ToT-DFS 30); the published code's smoothing and rounding; past uses on the answered paths of DFSDT",
        {"": 5},
        {base: asdict(SearchSettings.btp(tree_of_thoughts=base == "tot-dfs")) for base in BASES},
        asdict(BtpSettings.published()),
        EXPLORED,
        model=CHATGPT,
    ),
    Protocol(
        BOARD,
        "16 candidates; depth counted in steps (12 of them, ToT-DFS 8) with 200 replies (ToT-DFS 30); BTP's own settings",
        experience=EXPLORED,
    ),
)

# -- agents ------------------------------------------------------------------------------------------------------------------

AGENTS = tuple(
    f"{base}{access}"
    for base in BASES
    for access in ("", "+prompt", "+btp", "+summary", "+btp-no-summary", "+btp-no-blacklist", "+btp-no-caps")
)
"""The paper's rows, and those that tell the parts of BTP apart: its final summary alone, and BTP without each part."""

# -- play --------------------------------------------------------------------------------------------------------------------

BUDGETS = (5.0, 10.0, 15.0, 20.0, 30.0, 40.0)
THRESHOLDS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
USES = (0.0, 1.0, 3.0, 10.0, 20.0)  # past uses a tool, besides those of the protocol
THRESHOLD = 0.15  # fixed while the budget varies, as the budget is while the threshold varies
COMPARED_BUDGETS = (10.0, 20.0, 40.0)  # at which BTP is compared with its plain baselines, pair by pair


def play_protocol(protocol: Protocol, job: Job, agents: Sequence[str] | None = None) -> Tables:
    """Play the paper's agents, then the curves; chosen agents, plain ones first, are played without the curves."""
    scenario = protocol.scenario(enlarged(market(job.world), job.episodes))
    assert protocol.experience is not None
    text = past_uses(scenario, protocol.experience, Local(job.processes), job.progress)
    board = job._replace(out=job.out / "btp")
    rows, results = play_board(scenario, agents or AGENTS, f"price={BUDGET:g}", board, protocol)
    experience = job.out / "experience.jsonl"
    write_atomically(experience, text)
    for row in rows:
        if row["agent"] in (f"{base}+btp" for base in BASES):
            plan = planned_uses(scenario, row["agent"], job, protocol, str(experience))
            row |= {**plan, "ci95": {**row["ci95"], **plan["ci95"]}}
    if agents is not None:
        return {"ours": rows, "effects": check_claims(results, rows, (), job.seed)}
    compared = {agent: episodes for agent, episodes in results.items() if agent.removesuffix("+btp") in BASES}
    points = play_curves(scenario, protocol, compared, experience, job)
    curves = curve_rows(points, job.seed)
    return {
        "ours": rows,
        "differences": difference_rows(points, job.seed),
        "curves": curves,
        "effects": check_claims(results, rows, curves, job.seed),
        "experience": [dict(describe_experience(text))],
    }


def planned_uses(scenario: Scenario, agent: str, job: Job, protocol: Protocol, past: str) -> Row:
    """Measure what BTP's plan allows beside what is used: mean uses and price of either, with their intervals."""
    figures = []
    for session, episode in play_sessions(scenario, agent, job, protocol, past):
        plan = next(part for part in session.access if isinstance(part, Btp)).plan
        quotes = session.quotes()
        price = sum(quotes[name] * uses for name, uses in plan.items() if uses)
        figures.append([sum(plan.values()), price, len(session.executed), episode.ledger.price])
    names, values = ("planned_uses", "planned_cost", "uses", "used_cost"), np.array(figures, np.float64)
    means = dict(zip(names, values.mean(axis=0).tolist(), strict=True))
    return {**means, "ci95": interval_ends(names, values, seed=job.seed)}


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a curve."""

    agent: str
    curve: str  # "R", "tau" or "uses"
    at: float  # position on the curve
    experience: str  # file of past uses that the agent plans from


def play_curves(
    scenario: Scenario, protocol: Protocol, results: Mapping[str, Sequence[EpisodeResult]], experience: Path, job: Job
) -> dict[Point, list[EpisodeResult]]:
    """Play every point that follows from no other and is not in the folder `curves` beside the experience; return the episodes
    of all. `results` are the job's episodes at R = 20 of the plain agents and of those with BTP. `experience` is the file of
    past tool uses for BTP; the first of them are written beside it."""
    # Plain agents neither see the budget nor stop at it: their episodes at one R are regraded at every other R, not played.
    bases = [name for name in results if "+" not in name]
    usual = 0.0 if protocol.experience is None else protocol.experience.uses
    files = {usual: str(experience), **_shorter_experience(scenario, experience, usual)}
    played: dict[Point, list[EpisodeResult]] = {}
    for agent in bases:
        for budget in BUDGETS:
            played[Point(agent, "R", budget, files[usual])] = [_within(result, budget) for result in results[agent]]
        for uses in files:
            played[Point(agent, "uses", uses, files[usual])] = list(results[agent])
    missing: list[Point] = []
    for agent in (f"{base}+btp" for base in bases):
        at_the_papers_setting = (("R", BUDGET), ("tau", THRESHOLD), ("uses", usual))
        played |= {Point(agent, name, at, files[usual]): list(results[agent]) for name, at in at_the_papers_setting}
        missing += [Point(agent, "R", budget, files[usual]) for budget in BUDGETS if budget != BUDGET]
        missing += [Point(agent, "tau", tau, files[usual]) for tau in THRESHOLDS if tau != THRESHOLD]
        missing += [Point(agent, "uses", uses, file) for uses, file in files.items() if uses != usual]
    past = hashlib.blake2b(experience.read_bytes(), digest_size=16).hexdigest()
    manifest = {
        "scenario": scenario.digest, "search": protocol.search, "btp": protocol.btp, "model": protocol.model,
        "experience": past, "episodes": job.episodes, "seed": job.seed,
    }  # fmt: skip
    shared = scenario.model_dump_json(), protocol, job.episodes, job.seed
    pieces = {f"{point.agent}-{point.curve}-{point.at:g}": point for point in missing}
    lines = play_pieces(experience.parent / "curves", manifest, play_point, shared, pieces, job.processes, job.progress)
    return played | {point: [EpisodeResult.from_json(line) for line in lines[name]] for name, point in pieces.items()}


def _shorter_experience(scenario: Scenario, experience: Path, usual: float) -> dict[float, str]:
    """Write files with fewer past uses a tool than usual beside the whole one; return their paths by the number of uses."""
    tools = len(scenario.build().catalog)
    files = {}
    for uses in USES:
        if uses < usual:
            path = experience.with_name(f"{experience.stem}-{uses:g}{experience.suffix}")
            write_atomically(path, first_uses(experience.read_text(encoding="utf-8"), uses * tools))
            files[uses] = str(path)
    return files


def _within(result: EpisodeResult, budget: float) -> EpisodeResult:
    return replace(result, budget={"price": budget}, exceeded="price" if result.price > budget else None)


def play_point(shared: tuple[str, Protocol, int, int], point: Point) -> Iterator[str]:
    """Play the episodes of a point, in the scenario (JSON text), protocol, number and seed that all share; yield JSON text."""
    document, protocol, episodes, seed = shared
    settings = BtpSettings(**protocol.btp)
    if point.curve == "tau":
        settings = replace(settings, threshold=point.at)
    search = SearchSettings.chosen(protocol.search, point.agent.partition("+")[0])
    agent = make_agent(point.agent, model=protocol.model, experience=point.experience, btp=settings, search=search)
    env = text_env(Scenario.model_validate_json(document), budget={"price": point.at if point.curve == "R" else BUDGET})
    for result, _ in play_many(env, agent, TEXT, range(episodes), seed):
        yield result.to_json()


# -- table -------------------------------------------------------------------------------------------------------------------

CURVE_METRICS = (
    "judged_pass_rate_under_budget", "pass_rate_under_budget", "average_cost", "judged_pass_rate", "pass_rate",
    "budget_failure_rate",
)  # fmt: skip
COLUMNS = (
    ("judged_pass_rate_under_budget", "PBC %", "rate"),
    ("average_cost", "AC", "number"),
    ("judged_pass_rate", "PR %", "rate"),
    ("budget_failure_rate", "RFBC %", "rate"),
    ("pass_rate_under_budget", "PBC strict %", "rate"),
    ("pass_rate", "PR strict %", "rate"),
    ("planned_uses", "planned uses", "number"),
    ("uses", "uses", "number"),
    ("planned_cost", "planned cost", "number"),
    ("used_cost", "used cost", "number"),
)
CURVE_COLUMNS = (
    ("judged_pass_rate_under_budget", "PBC %", "rate"),
    ("pass_rate_under_budget", "PBC strict %", "rate"),
    ("average_cost", "AC", "number"),
)
DIFFERENCE_COLUMNS = (
    ("judged_pass_rate_under_budget", "PBC, points", "rate"),
    ("pass_rate_under_budget", "PBC strict, points", "rate"),
    ("judged_pass_rate", "PR, points", "rate"),
    ("pass_rate", "PR strict, points", "rate"),
    ("average_cost", "AC", "number"),
    ("budget_failure_rate", "RFBC, points", "rate"),
)


def curve_rows(played: Mapping[Point, Sequence[EpisodeResult]], seed: int) -> list[Row]:
    """Return one row per agent and point: `curve` ("R", "tau" or "uses"), `at`, and the metrics with their intervals."""
    agents = list(dict.fromkeys(point.agent for point in played))
    points = sorted(played, key=lambda point: (point.curve, agents.index(point.agent), point.at))
    return [_curve_row(point, played[point], seed) for point in points]


def _curve_row(point: Point, results: Sequence[EpisodeResult], seed: int) -> Row:
    row = summarise(results, "judge", seed=seed)
    ends = {name: row["ci95"][name] for name in CURVE_METRICS if name in row["ci95"]}
    figures = {name: row[name] for name in CURVE_METRICS}
    return {
        "curve": point.curve, "at": point.at, "agent": point.agent, "model": row["model"], "budget": row["budget"],
        "episodes": row["episodes"], "grading": "judge", **figures, "ci95": ends,
    }  # fmt: skip


def difference_rows(points: Mapping[Point, Sequence[EpisodeResult]], seed: int) -> list[Row]:
    """Return BTP less its plain form at several budgets."""
    played = {(point.agent, point.at): episodes for point, episodes in points.items() if point.curve == "R"}
    rows = []
    for base in BASES:
        for budget in COMPARED_BUDGETS:
            with_btp, plain = played[f"{base}+btp", budget], played[base, budget]
            pairs = {metric: paired_means(with_btp, plain, metric, seed) for metric, _, _ in DIFFERENCE_COLUMNS}
            figures = {metric: difference for metric, (difference, *_) in pairs.items()}
            ends = {metric: list(interval) for metric, (_, *interval) in pairs.items()}
            rows.append({"agent": f"{base}+btp less {base}", "R": budget, **figures, "ci95": ends})
    return rows


def draw_curves(rows: Sequence[Row]) -> str:
    """Plot PBC and average cost over R, tau and past uses a tool as an SVG; solid lines with BTP, dashed lines without."""
    bases = list(dict.fromkeys(str(row["agent"]).partition("+")[0] for row in rows))
    figures = (
        ("judged_pass_rate_under_budget", "PBC, judge, %", 100.0),
        ("pass_rate_under_budget", "PBC, strict, %", 100.0),
        ("average_cost", "average cost", 1.0),
    )
    grid = []
    for metric, title, scale in figures:
        line = []
        for name, label in (("R", "budget R"), ("tau", "threshold τ"), ("uses", "past uses a tool")):
            shown = [row for row in rows if row["curve"] == name]
            if metric == "average_cost":
                shown = [row for row in shown if row["agent"].endswith("+btp")]
            line.append(Panel(title, label, _curves_by_agent(shown, metric, scale, bases)))
        grid.append(line)
    return panels(grid)


def _curves_by_agent(rows: Sequence[Row], metric: str, scale: float, bases: Sequence[str]) -> list[Series]:
    agents = dict.fromkeys(str(row["agent"]) for row in rows)
    points = {agent: [row for row in rows if row["agent"] == agent] for agent in agents}
    return [
        curve(agent, points[agent], metric, bases.index(agent.partition("+")[0]), not agent.endswith("+btp"), scale)
        for agent in agents
    ]


# -- claims ------------------------------------------------------------------------------------------------------------------

ENFORCED = "BTP's rules refuse every call that the budget does not cover"
PLANNED = "BTP's rules refuse every call beyond the plan"
ATTENDS_COSTS = "the simulated model's rate `attend_costs` decides it"


def check_claims(results: Results, rows: Sequence[Row], curves: Sequence[Row], seed: int = 0) -> list[Row]:
    """Check the claims of Section 3 at R = 20 and along both curves, under both gradings."""
    table = {row["agent"]: row for row in rows}
    bases = [name for name in table if "+" not in name]
    effects = _check_costs(table, bases)
    for grading, (_, within) in PASSES.items():
        effects += _check_passes(results, table, bases, grading, seed)
        effects += check_curves(curves, [f"{base}+btp" for base in bases], within, grading)
    return effects


def _check_costs(table: Mapping[str, Row], bases: Sequence[str]) -> list[Row]:
    """Check what is spent: nothing over the budget, less than planned, and less than without BTP."""
    effects = []
    for base in bases:
        before, rate = (table[name]["budget_failure_rate"] for name in (base, f"{base}+btp"))
        claim, text = f"{base}: with BTP no query fails because of the budget", f"RFBC {100 * before:.1f} to {100 * rate:.1f} %"
        effects.append(effect(claim, text, rate == 0.0, source="Table 3", by=ENFORCED))
    for base in bases:
        row = table[f"{base}+btp"]
        if "planned_uses" in row:
            text = f"{row['used_cost']:.1f} of {row['planned_cost']:.1f}, {row['uses']:.1f} of {row['planned_uses']:.1f} uses"
            follows = row["used_cost"] < row["planned_cost"] and row["uses"] < row["planned_uses"]
            effects.append(effect(f"{base}: less is used than planned", text, follows, source="Table 4", by=PLANNED))
    for base in bases:
        old, new = table[base]["average_cost"], table[f"{base}+btp"]["average_cost"]
        least = 0.0 if base == "react" else 0.4
        claim = f"{base}: BTP costs less" if not least else f"{base}: BTP costs less by more than 40 %"
        change = new / old - 1.0 if old else 0.0
        measured = f"AC {old:.1f} to {new:.1f} ({100 * change:+.0f} %)"
        effects.append(effect(claim, measured, change < -least, source="Table 2"))
    return effects


def _check_passes(results: Results, table: Mapping[str, Row], bases: Sequence[str], grading: str, seed: int) -> list[Row]:
    """Check what passes at R = 20 under one grading."""
    passes, within = PASSES[grading]
    effects = []
    gains = {}
    for base in bases:
        text, points = difference_in_points(results, f"{base}+btp", base, within, seed)
        gains[base], levels = points[0], levels_of(table[base], table[f"{base}+btp"], within)
        paper = printed("btp", f"{base}+btp", base, "judged_pass_rate_under_budget") if grading == "judge" else None
        claim = f"{base}: BTP raises PBC"
        effects.append(effect(claim, text, points[1] > 0, grading, "Table 2", points=points, paper=paper, levels=levels))
    rest = [gain for base, gain in gains.items() if base != "react"]
    measured = ", ".join(f"{base} {gain:+.1f}" for base, gain in gains.items())
    effects.append(effect("PBC rises more for the tree searches", measured, min(rest) > gains["react"], grading, "Table 2"))
    for base in bases:
        text, points = difference_in_points(results, f"{base}+btp", base, passes, seed)
        claim = f"{base}: budget aside, BTP leaves PR unchanged (within {ALIKE:g} points, either way)"
        paper = printed("btp", f"{base}+btp", base, "judged_pass_rate") if grading == "judge" else None
        follows, levels = two_sided(*points[1:], margin=ALIKE) == "same", levels_of(table[base], table[f"{base}+btp"], passes)
        effects.append(effect(claim, text, follows, grading, "Table 3", points=points, paper=paper, levels=levels))
    for base in (name for name in bases if f"{name}+prompt" in results):
        text, (gain, *_) = difference_in_points(results, f"{base}+prompt", base, within, seed)
        claim = f"{base}: +Prompt changes PBC by under 3 points"
        effects.append(effect(claim, text, abs(gain) < 3.0, grading, "Table 2", by=ATTENDS_COSTS))
    return effects


def check_curves(curves: Sequence[Row], agents: Sequence[str], metric: str, grading: str) -> list[Row]:
    """Check the claims of Figures 2 and 3."""
    effects = []
    for agent in agents:
        value = {(row["curve"], row["at"]): 100 * row[metric] for row in curves if row["agent"] == agent}
        cost = {(row["curve"], row["at"]): row["average_cost"] for row in curves if row["agent"] == agent}
        budgets, taus = (sorted(at for name, at in value if name == wanted) for wanted in ("R", "tau"))
        if len(budgets) > 1:
            series, costs = [value["R", at] for at in budgets], [cost["R", at] for at in budgets]
            measured = f"PBC {_series(budgets, series)}; AC {_series(budgets, costs)}"
            claim = f"{agent}: PBC and AC rise with R (each step, less 1 point)"
            follows = _rises(series, 1.0) and _rises(costs, 0.0)
            effects.append(effect(claim, measured, follows, grading, "Figure 2"))
        if THRESHOLD in taus and len(taus) > 2:
            series = [value["tau", at] for at in taus]
            here = value["tau", THRESHOLD]
            follows = here > series[0] + 0.5 and here > series[-1] + 0.5
            best = max(taus, key=lambda at: value["tau", at])
            measured = f"{_series(taus, series)}; highest at {best:g}"
            claim = f"{agent}: PBC over tau is highest near 0.15 (half a point above both ends)"
            effects.append(effect(claim, measured, follows, grading, "Figure 3"))
            if grading == "judge":
                costs = [cost["tau", at] for at in taus]
                claim = f"{agent}: AC falls as tau rises"
                effects.append(effect(claim, _series(taus, costs), _rises(costs[::-1], 0.05), "", "Figure 3"))
    return effects


def _series(ats: Sequence[float], values: Sequence[float]) -> str:
    return ", ".join(f"{value:.1f} at {at:g}" for at, value in zip(ats, values, strict=True))


def _rises(values: Sequence[float], slack: float) -> bool:
    """Return whether no step falls by more than the slack and the last value is above the first."""
    return values[-1] > values[0] and all(b >= a - slack for a, b in pairwise(values))


PAPER = Paper(
    "btp",
    "BTP",
    PROTOCOLS,
    1000,
    lambda job: play_protocols(PROTOCOLS, play_protocol, job),
    "PBC, AC and RFBC count tool fees only, as in the paper. An effect without a grading does not depend on it.",
    COLUMNS,
    {"curves": CURVE_COLUMNS, "differences": DIFFERENCE_COLUMNS},
    {"differences": "BTP less its plain form", "curves": "Over the budget R, the threshold τ and past uses"},
    draw_curves,
)
