"""EcoAct: does registering tools by name, one an action, cost fewer tokens than listing all of them?

EcoAct begins with the tools' names and registers the documentation of one tool an action. It stands beside its plain form where
few, more and many tools are on offer, and beside two ablations: several registrations at once, and names with descriptions.

Source: EcoAct, Sections 3.1 to 3.4, Tables 1 to 4, Figures 3 and 4, Appendix B; where the paper does not say it, its published
code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean, pstdev

import numpy as np
from numpy.typing import NDArray

from costgym.agents.llm.access import EcoAct
from costgym.agents.llm.strategies import SearchSettings
from costgym.experiments.pages.charts import Panel, Series, panels
from costgym.experiments.papers.claims import (
    ALIKE,
    PASSES,
    Points,
    Printed,
    Results,
    difference_in_points,
    effect,
    in_words,
    interval_ends,
    levels_of,
    printed,
    two_sided,
)
from costgym.experiments.papers.paper import BOARD, CHATGPT, PUBLISHED, Job, Paper, Protocol, Row, Tables, published
from costgym.experiments.papers.pictures import curve
from costgym.experiments.papers.playing import enlarged, market, play_board, play_protocols, play_sessions
from costgym.simulators.scenario import Scenario

# -- protocol ----------------------------------------------------------------------------------------------------------------

UNITS_PER_CENT = 10_000
"""EcoAct's cost counts the model's tokens only, so prices are in units so small that tool fees of 1 to 10 are negligible."""
GPT_4O = {"input": 500.0 * UNITS_PER_CENT, "output": 1500.0 * UNITS_PER_CENT}
"""Units per million tokens. Source: EcoAct's published script (5 and 15 USD per million)."""
PROTOCOLS = (
    Protocol(
        PUBLISHED,
        "up to 64 candidates; chains of 24 nodes, with thoughts as seldom as ChatGPT's; one child after a registration",
        {"up to 10": (5, 10), "11 to 20": (11, 20), "more than 20": (21, 64)},
        asdict(SearchSettings.ecoact()),
        model=CHATGPT,
    ),
    Protocol(
        BOARD,
        "up to 40 candidates; chains of 24 steps",
        {"up to 10": (5, 10), "11 to 20": (11, 20), "more than 20": (21, 40)},
        {"depth": 24},
    ),
)

# -- agents ------------------------------------------------------------------------------------------------------------------

ABLATIONS = ("react+ecoact-several", "react+ecoact-described")
AGENTS = ("react", "react+ecoact", *ABLATIONS, "dfsdt", "dfsdt+ecoact")

# -- play --------------------------------------------------------------------------------------------------------------------

REPLIES = 24  # over which registrations are counted, as many as the paper's steps


def play_protocol(protocol: Protocol, job: Job, agents: Sequence[str] | None = None) -> Tables:
    """Play the agents, by default the paper's, at every number of candidates."""
    # the default scenario with costs dominated by the model's tokens
    prices = {"tokens": GPT_4O, "max_price": 1e7, "currency": "1/10,000 cent", "name": "ecoact"}
    world = Scenario.model_validate({**market(job.world).model_dump(), **prices})
    groups = list(protocol.candidates)
    rows: list[Row] = []
    curves: list[Row] = []
    results: dict[str, Results] = {}
    for number, group in enumerate(groups):
        scenario = enlarged(protocol.scenario(world, group), job.episodes)
        board = job._replace(out=job.out / f"ecoact-{number}")
        group_rows, results[group] = play_board(scenario, agents or AGENTS, f"price={1e9:.0f}", board, protocol)
        plain_costs = {row["agent"]: row["average_cost"] for row in group_rows}
        for row in group_rows:
            base, _, access = row["agent"].partition("+")
            _to_cents(row, group, plain_costs[base])
            if access:
                shares = registered_shares(scenario, row["agent"], job, protocol)
                row["registered_share"] = float(shares[:, -1].mean())
                row["ci95"] |= interval_ends(["registered_share"], shares[:, -1:], seed=job.seed)
                if group == groups[-1]:
                    curves += curve_rows(row, shares)
        rows += group_rows
    return {"ours": rows, "curves": curves, "effects": check_claims(results, rows, job.seed)}


def _to_cents(row: Row, group: str, plain_cost: float) -> None:
    """Turn a leaderboard's row into one of the paper's table: its group, cents, and the change of the cost."""
    row["group"] = group
    row["cost_change"] = row["average_cost"] / plain_cost - 1.0 if plain_cost else 0.0
    row["average_cost"] /= UNITS_PER_CENT
    if "average_cost" in row["ci95"]:
        row["ci95"]["average_cost"] = [end / UNITS_PER_CENT for end in row["ci95"]["average_cost"]]
    row["budget"] = {}


def registered_shares(scenario: Scenario, agent: str, job: Job, protocol: Protocol) -> NDArray[np.float64]:
    """Measure the share of candidate tools registered after each reply, then at the end.  # (episodes, replies + 1)"""
    shares = []
    for session, _ in play_sessions(scenario, agent, job, protocol):
        access = next(part for part in session.access if isinstance(part, EcoAct))
        at = np.array(list(access.registered.values()))
        counts = [*((at <= reply).sum() for reply in range(1, REPLIES + 1)), len(at)]
        shares.append([count / len(session.candidates) for count in counts])
    return np.array(shares)


# -- table -------------------------------------------------------------------------------------------------------------------

COLUMNS = (
    ("judged_pass_rate", "PR %", "rate"),
    ("average_cost", "cost, ¢", "number"),
    ("cost_change", "change %", "rate"),
    ("average_tokens", "tokens", "count"),
    ("registered_share", "registered %", "rate"),
    ("pass_rate", "PR strict %", "rate"),
)


def curve_rows(row: Row, shares: NDArray[np.float64]) -> list[Row]:
    """Return an agent's mean share of registered tools after each reply."""
    common = {"curve": "step", "agent": row["agent"], "model": row["model"], "episodes": len(shares)}
    return [
        {**common, "at": at, "registered_share": float(share), "ci95": {}}
        for at, share in enumerate(shares[:, :-1].mean(axis=0), 1)
    ]


def draw_curves(rows: Sequence[Row]) -> str:
    """Plot the share of registered tools over the replies as an SVG, beside the 30 % of Figure 4."""
    agents = dict.fromkeys(str(row["agent"]) for row in rows)
    lines = [
        curve(agent, [row for row in rows if row["agent"] == agent], "registered_share", colour, scale=100.0)
        for colour, agent in enumerate(agents)
    ]
    ends = [rows[0]["at"], rows[-1]["at"]]
    lines.append(Series("the paper, at the end", ends, [30.0, 30.0], len(agents), dashed=True))
    return panels([[Panel("registered tools, % of those on offer, above 20", "replies", lines)]])


# -- claims ------------------------------------------------------------------------------------------------------------------

LISTED = "the simulated model errs by the number of listed tools, with documentation or without"


def check_claims(results: Mapping[str, Results], rows: Sequence[Row], seed: int = 0) -> list[Row]:
    """Check the claims about cost and passes by number of candidate tools, and about two ablations. `results` are the episodes
    by group. Claims about agents that were not played are left out."""
    table = {(row["group"], row["agent"]): row for row in rows}
    bases = [base for base in ("react", "dfsdt") if (list(results)[-1], f"{base}+ecoact") in table]
    effects = _check_costs(results, table, bases, seed)
    ablations = [name for name in ABLATIONS if (list(results)[-1], name) in table]
    for grading in PASSES:
        effects += _check_passes(results, table, bases, ablations, grading, seed)
    for group in list(results)[1:]:
        if "react+ecoact-described" in ablations:
            text, points = _cost_change(results[group], "react+ecoact-described", "react+ecoact", seed)
            claim = f"react, {group} tools: telling descriptions costs 30 % more or above"
            by = "the lengths of names and descriptions in the catalog decide it"
            effects.append(effect(claim, text, points[1] >= 30.0, source="Table 4", by=by))
    return effects


def _check_costs(
    results: Mapping[str, Results], table: Mapping[tuple[str, str], Row], bases: Sequence[str], seed: int
) -> list[Row]:
    """Check what EcoAct saves where few and where many tools are on offer, and how many of them it registers."""
    first, *_, last = results
    # the paper's changes of cost by group and base; above 20 tools it prints ReAct's alone
    costs = {(row["group"], row["agent"]): row["average_cost"] for row in published("ecoact") if "average_cost" in row}
    saved = {
        (group, agent): 100 * (costs[group, f"{agent}+ecoact"] / cost - 1)
        for (group, agent), cost in costs.items()
        if "+" not in agent
    }
    spread = pstdev(saved.values())
    effects = []
    if "react" in bases:
        text, points = _cost_change(results[first], "react+ecoact", "react", seed)
        claim = f"react, {first} tools: EcoAct costs about as much (within 15 %)"
        effects.append(effect(claim, text, two_sided(*points[1:], margin=15.0) == "same", source="Figure 3"))
        text, points = _cost_change(results[last], "react+ecoact", "react", seed)
        most = next(100 * row["cost_change"] for row in published("ecoact") if "cost_change" in row)
        paper = Printed(0.0, most, spread)
        claim = f"react, {last} tools: EcoAct costs at least 45 % less"
        effects.append(effect(claim, text, points[2] <= -45.0, source="Figure 3", points=points, paper=paper))
        if "registered_share" in (row := table[last, "react+ecoact"]):
            share, low, high = (100 * value for value in (row["registered_share"], *row["ci95"]["registered_share"]))
            claim = f"react, {last} tools: about 30 % of the tools are registered (20 to 40 %)"
            text, paper = f"{share:.1f} % [{low:.1f}, {high:.1f}]", Printed(0.0, 30.0, 0.0)
            follows = two_sided(low, high, 30.0) == "same"
            effects.append(effect(claim, text, follows, source="Figure 4", points=(share, low, high), paper=paper))
    if "dfsdt" in bases:
        text, points = _cost_change(results[last], "dfsdt+ecoact", "dfsdt", seed)
        paper = Printed(0.0, fmean(change for (_, base), change in saved.items() if base == "dfsdt"), spread)
        claim = f"dfsdt, {last} tools: EcoAct costs less"
        effects.append(effect(claim, text, points[2] < 0, source="Table 2", points=points, paper=paper))
    return effects


def _check_passes(
    results: Mapping[str, Results],
    table: Mapping[tuple[str, str], Row],
    bases: Sequence[str],
    ablations: Sequence[str],
    grading: str,
    seed: int,
) -> list[Row]:
    """Check that EcoAct keeps the passes, and what its ablations do to them, under one grading."""
    passes, _ = PASSES[grading]
    pairs = [(f"{base}+ecoact", base, group) for base in bases for group in results]
    pairs += [(name, "react+ecoact", group) for group in list(results)[1:] for name in ablations]
    effects = []
    for ours, base, group in pairs:
        text, points = difference_in_points(results[group], ours, base, passes, seed)
        paper = printed("ecoact", ours, base, passes) if grading == "judge" else None
        if ours.endswith("several"):
            claim, follows, source, by = "registering several at once loses PR", points[2] < 0, "Table 3", ""
        elif ours.endswith("described"):
            claim = f"telling descriptions leaves PR within {ALIKE:g} points"
            follows, source, by = two_sided(*points[1:], margin=ALIKE) == "same", "Table 4", LISTED
        else:
            claim = f"EcoAct costs at most {ALIKE:g} points of PR"
            follows, source, by = points[1] >= -ALIKE, "Tables 1 and 2", ""
        levels = levels_of(table[group, base], table[group, ours], passes)
        claim = f"{ours.partition('+')[0]}, {group} tools: {claim}"
        effects.append(effect(claim, text, follows, grading, source, by, points, paper, levels))
    return effects


def _cost_change(results: Results, ours: str, base: str, seed: int) -> tuple[str, Points]:
    """Return the change of an agent's cost against another's on the same tasks, in percent."""
    costs = np.array([[result.price for result in results[name]] for name in (ours, base)], np.float64)
    low, high = interval_ends(["change"], costs[0][:, None], costs[1][:, None], seed=seed)["change"]
    change, low, high = (100 * (ratio - 1) for ratio in (costs[0].sum() / costs[1].sum(), low, high))
    return in_words((change, low, high), "%")


PAPER = Paper(
    "ecoact",
    "EcoAct",
    PROTOCOLS,
    1000,
    lambda job: play_protocols(PROTOCOLS, play_protocol, job),
    "Cost counts the model's tokens only, at the paper's prices for gpt-4o.",
    COLUMNS,
    {"curves": (("registered_share", "registered %", "rate"),)},
    {"curves": "Registered tools over the replies, above 20 tools (Figure 4)"},
    draw_curves,
)
