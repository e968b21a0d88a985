"""Check each published claim against our measurements.

Every claim is taken from a paper and has an explicit margin. Claims that a rule or a rate of the simulation decides, whatever
is played, are marked `by_construction`, with the reason, and counted nowhere. Nor are checks that no paper makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from ...play.metrics import paired_difference
from ...play.results import EpisodeResult
from .common import RESAMPLES, Row
from .published import published

Results = Mapping[str, Sequence[EpisodeResult]]
"""Episodes by agent."""
PASSES = {
    "judge": ("judged_pass_rate", "judged_pass_rate_under_budget"),
    "strict": ("pass_rate", "pass_rate_under_budget"),
}
UNPUBLISHED = "not in the paper"
ENFORCED = "BTP's rules refuse every call that the budget does not cover"
ATTENDS_COSTS = "the simulated model's rate `attend_costs` decides it"
LISTED = "the simulated model errs by the number of listed tools, with documentation or without"
TAG_RATES = "the simulated model's rates `wrong_tool`, `crowding` and `overlook` decide its tags"


MARGIN = 10.0
"""Points within which a difference counts as the paper's.

A model judge that grades the same answers again moves a pass rate by 5 to 9 points (StableToolBench), so a smaller difference
between two tables says nothing.
"""


ALIKE = 5.0
"""Points within which a rate counts as unchanged: the least of those 5 to 9."""


def effect(
    claim: str,
    measured: str,
    follows: bool,
    grading: str = "",
    source: str = "",
    by: str = "",
    points: Sequence[float] = (),
    paper: float | None = None,
) -> Row:
    """Return a checked claim.

    Args:
        claim, measured, follows, grading, source: see `reproduce`.
        by: reason for which it is true or false by construction.
        points: our difference, with the ends of its 95 % interval, where the paper's is known.
        paper: the paper's difference in points; the row then has `paper`, `distance` and `two_sided`, see `two_sided`.
    """
    row: Row = {"claim": claim, "grading": grading, "measured": measured, "follows": follows, "source": source}
    if points and paper is not None:
        gain, low, high = points
        row |= {"paper": round(paper, 1), "distance": round(gain - paper, 1), "two_sided": two_sided(low, high, paper)}
    return {**row, "by_construction": bool(by), **({"reason": by} if by else {})}


def two_sided(low: float, high: float, paper: float = 0.0, margin: float = MARGIN) -> str:
    """Compare a 95 % interval with the paper's difference and a margin around it, in points.

    Returns:
        "same" where the interval lies within the margin, "larger" or "smaller" where it lies wholly beyond, else "open".
    """
    if paper - margin <= low and high <= paper + margin:
        return "same"
    return "larger" if low > paper + margin else "smaller" if high < paper - margin else "open"


def _published(name: str, ours: str, base: str, metric: str, **where: object) -> float | None:
    """Return the paper's difference of two rows in points; None where it has no such rows."""
    rows = [row for row in published(name) if metric in row and all(row.get(key) == value for key, value in where.items())]
    values = {row["agent"]: row[metric] for row in rows}
    return 100.0 * (values[ours] - values[base]) if ours in values and base in values else None


def counted(effects: Sequence[Row]) -> list[Row]:
    """Return the effects that count: claims of the paper that playing decides."""
    return [row for row in effects if not row["by_construction"] and row["source"] != UNPUBLISHED]


def _points(results: Results, ours: str, base: str, metric: str, seed: int) -> tuple[str, float, tuple[float, float]]:
    """Return the difference of two agents in percentage points: as text, as a number, and its 95 % interval."""
    found = paired_difference(results[ours], results[base], metric, seed=seed, resamples=RESAMPLES)
    difference, (low, high) = 100 * found.difference, (100 * found.ci95[0], 100 * found.ci95[1])
    return f"{difference:+.1f} points [{low:+.1f}, {high:+.1f}]", difference, (low, high)


# -- BTP -----------------------------------------------------------------------------------------------------------------


def btp_effects(results: Results, rows: Sequence[Row], curves: Sequence[Row], seed: int = 0) -> list[Row]:
    """Check the claims of BTP's Section 3 at R = 20 and along both curves, under both gradings."""
    table = {row["agent"]: row for row in rows}
    bases = [name for name in table if "+" not in name]
    found: list[Row] = []
    for base in bases:
        rate = table[f"{base}+btp"]["budget_failure_rate"]
        before = table[base]["budget_failure_rate"]
        claim = f"{base}: with BTP no query fails because of the budget"
        found.append(
            effect(claim, f"RFBC {100 * before:.1f} to {100 * rate:.1f} %", rate == 0.0, source="Table 3", by=ENFORCED)
        )
    for base in bases:
        old, new = table[base]["average_cost"], table[f"{base}+btp"]["average_cost"]
        least = 0.0 if base == "react" else 0.4
        words = "BTP costs less" if not least else "BTP costs less by more than 40 %"
        change = new / old - 1.0 if old else 0.0
        measured = f"AC {old:.1f} to {new:.1f} ({100 * change:+.0f} %)"
        found.append(effect(f"{base}: {words}", measured, change < -least, source="Table 2"))
    for grading, (passes, within) in PASSES.items():
        gains = {}
        for base in bases:
            text, gains[base], (low, high) = _points(results, f"{base}+btp", base, within, seed)
            paper = _published("btp", f"{base}+btp", base, "judged_pass_rate_under_budget") if grading == "judge" else None
            points = (gains[base], low, high)
            found.append(effect(f"{base}: BTP raises PBC", text, low > 0, grading, "Table 2", points=points, paper=paper))
        rest = [gain for base, gain in gains.items() if base != "react"]
        measured = ", ".join(f"{base} {gain:+.1f}" for base, gain in gains.items())
        found.append(effect("PBC rises more for the tree searches", measured, min(rest) > gains["react"], grading, "Table 2"))
        for base in bases:
            text, gain, ends = _points(results, f"{base}+btp", base, passes, seed)
            claim = f"{base}: budget aside, BTP leaves PR unchanged (within {ALIKE:g} points, either way)"
            paper = _published("btp", f"{base}+btp", base, "judged_pass_rate") if grading == "judge" else None
            follows = two_sided(*ends, margin=ALIKE) == "same"
            found.append(effect(claim, text, follows, grading, "Table 3", points=(gain, *ends), paper=paper))
        for base in bases:
            text, gain, _ = _points(results, f"{base}+prompt", base, within, seed)
            claim = f"{base}: +Prompt changes PBC by under 3 points"
            found.append(effect(claim, text, abs(gain) < 3.0, grading, "Table 2", by=ATTENDS_COSTS))
        found += _bends(curves, [f"{base}+btp" for base in bases], within, grading)
    return found


def _bends(curves: Sequence[Row], agents: Sequence[str], metric: str, grading: str) -> list[Row]:
    """Check the claims of BTP's Figures 2 and 3."""
    found = []
    for agent in agents:
        value = {(row["curve"], row["at"]): 100 * row[metric] for row in curves if row["agent"] == agent}
        cost = {(row["curve"], row["at"]): row["average_cost"] for row in curves if row["agent"] == agent}
        rs, taus = (sorted(at for curve, at in value if curve == wanted) for wanted in ("R", "tau"))
        if len(rs) > 1:
            series = [value["R", at] for at in rs]
            costs = [cost["R", at] for at in rs]
            measured = f"PBC {_series(rs, series)}; AC {_series(rs, costs)}"
            follows = _rises(series, 1.0) and _rises(costs, 0.0)
            found.append(
                effect(f"{agent}: PBC and AC rise with R (each step, less 1 point)", measured, follows, grading, "Figure 2")
            )
        if 0.15 in taus and len(taus) > 2:
            series = [value["tau", at] for at in taus]
            here = value["tau", 0.15]
            follows = here > series[0] + 0.5 and here > series[-1] + 0.5
            best = max(taus, key=lambda at: value["tau", at])
            measured = f"{_series(taus, series)}; highest at {best:g}"
            claim = f"{agent}: PBC over tau is highest near 0.15 (half a point above both ends)"
            found.append(effect(claim, measured, follows, grading, "Figure 3"))
            if grading == "judge":
                costs = [cost["tau", at] for at in taus]
                claim = f"{agent}: AC falls as tau rises"
                found.append(effect(claim, _series(taus, costs), _rises(costs[::-1], 0.05), "", "Figure 3"))
    return found


def _series(ats: Sequence[float], values: Sequence[float]) -> str:
    return ", ".join(f"{value:.1f} at {at:g}" for at, value in zip(ats, values, strict=True))


def _rises(values: Sequence[float], slack: float) -> bool:
    """Return whether no step falls by more than the slack and the last value is above the first."""
    return values[-1] > values[0] and all(b >= a - slack for a, b in pairwise(values))


# -- EcoAct --------------------------------------------------------------------------------------------------------------


def ecoact_effects(scales: Mapping[str, Results], rows: Sequence[Row], seed: int = 0) -> list[Row]:
    """Check the claims of EcoAct's Sections 3.2 to 3.4: cost and passes by number of candidate tools, and two ablations.

    Claims about agents that were not played are left out.
    """
    table = {(row["group"], row["agent"]): row for row in rows}
    names = list(scales)
    first, last = names[0], names[-1]
    bases = [base for base in ("react", "dfsdt") if (last, f"{base}+ecoact") in table]
    found = []
    if "react" in bases:
        change = {scale: 100 * table[scale, "react+ecoact"]["cost_change"] for scale in names}
        claim = f"react, {first} tools: EcoAct costs about as much (within 15 %)"
        found.append(effect(claim, f"{change[first]:+.1f} %", abs(change[first]) <= 15.0, source="Figure 3"))
        claim = f"react, {last} tools: EcoAct costs at least 45 % less"
        found.append(effect(claim, f"{change[last]:+.1f} %", change[last] <= -45.0, source="Figure 3"))
        share = table[last, "react+ecoact"].get("registered_share")
        if share is not None:
            claim = f"react, {last} tools: about 30 % of the tools are registered (20 to 40 %)"
            found.append(effect(claim, f"{100 * share:.1f} %", 0.2 <= share <= 0.4, source="Figure 4"))
    if "dfsdt" in bases:
        cheaper = 100 * table[last, "dfsdt+ecoact"]["cost_change"]
        found.append(effect(f"dfsdt, {last} tools: EcoAct costs less", f"{cheaper:+.1f} %", cheaper < 0, source="Table 2"))
    ablations = [name for name in ("react+ecoact-several", "react+ecoact-described") if (last, name) in table]
    for grading, (passes, _) in PASSES.items():
        for base in bases:
            for scale in names:
                text, _, (low, _) = _points(scales[scale], f"{base}+ecoact", base, passes, seed)
                claim = f"{base}, {scale} tools: EcoAct costs at most {ALIKE:g} points of PR"
                found.append(effect(claim, text, low >= -ALIKE, grading, "Tables 1 and 2"))
        for scale in names[1:]:
            for name in ablations:
                text, _, (low, high) = _points(scales[scale], name, "react+ecoact", passes, seed)
                if name.endswith("several"):
                    claim = f"react, {scale} tools: registering several at once loses PR"
                    found.append(effect(claim, text, high < 0, grading, "Table 3"))
                else:
                    claim = f"react, {scale} tools: telling descriptions leaves PR within {ALIKE:g} points"
                    follows = two_sided(low, high, margin=ALIKE) == "same"
                    found.append(effect(claim, text, follows, grading, "Table 4", by=LISTED))
    for scale in names[1:]:
        if "react+ecoact-described" in ablations:
            described, plain = table[scale, "react+ecoact-described"], table[scale, "react+ecoact"]
            dearer = described["average_cost"] / plain["average_cost"] - 1
            claim = f"react, {scale} tools: telling descriptions costs 30 % more or above"
            by = "the lengths of names and descriptions in the catalog decide it"
            found.append(effect(claim, f"{100 * dearer:+.1f} %", dearer >= 0.3, source="Table 4", by=by))
    return found


# -- ToolPlanner ---------------------------------------------------------------------------------------------------------


def toolplanner_effects(differences: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """Check the claims of ToolPlanner's Sections 5.3 and 5.5: comparison with plain tree search and with a retriever."""
    found = []
    table = {(row["level"], row["agent"]): row for row in differences}
    levels = list(dict.fromkeys(level for level, _ in table))
    for level in levels:
        full, parts = (table[level, f"toolplanner{pair}"] for pair in (" less dfsdt", "-no-path less toolplanner-no-tags"))
        for metric, name in (("match_rate", "Match"), ("meaningful_rate", "Pass"), ("win_rate", "Win")):
            if metric in full:
                text, points = _measured(full, metric)
                paper = _published("toolplanner", "ToolPlanner", "ToolLLaMA-Tree", metric, level=level)
                claim = f"{level}: {name} rises"
                found.append(effect(claim, text, points[1] > 0, source="Table 1", points=points, paper=paper))
        if "match_rate" in parts:
            text, points = _measured(parts, "match_rate")
            paper = _published("toolplanner", "without path", "without tags", "match_rate", level=level)
            claim = f"{level}: tags raise Match more than paths"
            found.append(effect(claim, text, points[1] > 0, source="Table 5", points=points, paper=paper))
    for grading, (passes, _) in PASSES.items():
        for level in levels:
            text, points = _measured(table[level, "toolplanner less dfsdt"], passes)
            found.append(effect(f"{level}: at most 3 points fewer facts found", text, points[0] >= -3.0, grading, UNPUBLISHED))
    f1 = {(row["level"], row["agent"]): row["tag_f1"] for row in rows if "tag_f1" in row}
    for level in dict.fromkeys(level for level, _ in f1):
        best = max(value for (at, agent), value in f1.items() if at == level and agent.startswith("retriever"))
        ours = f1[level, "tag extraction"]
        measured = f"F1 {100 * ours:.1f} beside {100 * best:.1f}"
        claim = f"{level}: extracted tags beat the best retriever"
        found.append(effect(claim, measured, ours > best, source="Table 27", by=TAG_RATES))
    return found


def _measured(row: Row, metric: str) -> tuple[str, tuple[float, float, float]]:
    """Return a difference in points as text and as numbers: itself, and the ends of its interval."""
    gain, low, high = (100 * value for value in (row[metric], *row["ci95"][metric]))
    return f"{gain:+.1f} points [{low:+.1f}, {high:+.1f}]", (gain, low, high)
