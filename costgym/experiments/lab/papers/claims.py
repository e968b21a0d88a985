"""Check each published claim against our measurements.

Every claim is taken from a paper and has an explicit margin. Claims that a rule or a rate of the simulation decides, whatever
is played, are marked `by_construction`, with the reason, and counted nowhere. Nor are checks that no paper makes.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import hypot, isnan
from statistics import fmean, pstdev
from typing import NamedTuple

import numpy as np

from costgym.experiments.lab.papers.catp.policies import ALPHA, ALPHAS, KINDS
from costgym.experiments.lab.papers.catp.rows import AVERAGE
from costgym.experiments.lab.papers.common import RESAMPLES, Row, interval_ends
from costgym.experiments.lab.papers.published import published
from costgym.experiments.play.metrics import paired_difference
from costgym.experiments.play.results import EpisodeResult

Results = Mapping[str, Sequence[EpisodeResult]]  # episodes by agent
PASSES = {
    "judge": ("judged_pass_rate", "judged_pass_rate_under_budget"),
    "strict": ("pass_rate", "pass_rate_under_budget"),
}
UNPUBLISHED = "not in the paper"
ENFORCED = "BTP's rules refuse every call that the budget does not cover"
PLANNED = "BTP's rules refuse every call beyond the plan"
ATTENDS_COSTS = "the simulated model's rate `attend_costs` decides it"
LISTED = "the simulated model errs by the number of listed tools, with documentation or without"
TAG_RATES = "the simulated model's rates `wrong_tool`, `crowding` and `overlook` decide its tags"
PLAN_RATES = "the simulated model's rates `examples_help`, `steps_help` and `choice_slips` decide it"
MASKED = "the masks admit valid plans only"

MARGIN = 10.0
"""Points within which a difference counts as the paper's: a model judge that grades the same answers again moves a pass rate by
5 to 9 points (StableToolBench), so a smaller difference between two tables says nothing."""
ALIKE = 5.0  # points within which a rate counts as unchanged: the least of those 5 to 9
QUALITY_MARGIN, QUALITY_ALIKE = ALPHA * MARGIN / 100, ALPHA * ALIKE / 100
"""The same for the Quality of Plan, in which a score, a rate from 0 to 1, has the weight `ALPHA`."""
ALL = 1.0 - 1e-9  # a share of everything, as far as a weighted sum has it
NONE = float("nan")
Points = tuple[float, float, float]  # a difference, and the ends of its 95 % interval


class Printed(NamedTuple):
    """The paper's two figures behind a claim."""

    base: float  # of the system compared with
    ours: float  # of the paper's own
    spread: float  # standard deviation of the figure over the rows of its table; 0 where it prints no other


def effect(
    claim: str,
    measured: str,
    follows: bool,
    grading: str = "",
    source: str = "",
    by: str = "",
    points: Points | None = None,
    paper: Printed | None = None,
    levels: tuple[float, float] | None = None,
    margin: float = MARGIN,
) -> Row:
    """Return a checked claim as `reproduce` does; `by` is the reason for which it is true or false by construction. Where the
    paper's figures are known, `points` is our difference with its interval, `levels` are our two figures, and the row has the
    paper's difference as `paper`, ours with its interval as `here`, ours less the paper's as `distance` and in `spreads` of its
    table, and `two_sided`, see there."""
    row: Row = {"claim": claim, "grading": grading, "measured": measured, "follows": follows, "source": source}
    if points is not None and paper is not None and not isnan(points[0]):
        digits = 1 if margin >= 1 else 3
        difference = paper.ours - paper.base
        distance = points[0] - difference
        row |= {
            "paper": round(difference, digits),
            "here": [round(value, digits) for value in points],
            "distance": round(distance, digits),
            "two_sided": two_sided(*points[1:], difference, margin),
            "paper_levels": [round(paper.base, digits), round(paper.ours, digits)],
        }
        if paper.spread:
            row["spreads"] = round(distance / paper.spread, 1)
        if levels is not None:
            row["levels"] = [round(level, digits) for level in levels]
    return {**row, "by_construction": bool(by), **({"reason": by} if by else {})}


def two_sided(low: float, high: float, paper: float = 0.0, margin: float = MARGIN) -> str:
    """Compare a 95 % interval with the paper's difference and a margin around it, in points: "same" where the interval lies
    within the margin, "larger" or "smaller" where it lies wholly beyond, else "open"."""
    if paper - margin <= low and high <= paper + margin:
        return "same"
    return "larger" if low > paper + margin else "smaller" if high < paper - margin else "open"


def _published(name: str, ours: str, base: str, metric: str, unit: float = 100.0, **where: object) -> Printed | None:
    """Return the paper's two figures, by default in points, as means over groups that have both; None without such rows."""
    rows = [row for row in published(name) if metric in row and all(row.get(key) == value for key, value in where.items())]
    values = {(row["agent"], row.get("group")): unit * row[metric] for row in rows}
    groups = [group for agent, group in values if agent == ours and (base, group) in values]
    if not groups:
        return None
    base_level, level = (fmean(values[agent, group] for group in groups) for agent in (base, ours))
    return Printed(base_level, level, pstdev(values.values()))


def _levels(base: Row, ours: Row, metric: str, unit: float = 100.0) -> tuple[float, float]:
    return unit * base.get(metric, NONE), unit * ours.get(metric, NONE)


def counted(effects: Sequence[Row]) -> list[Row]:
    """Return the effects that count: claims of the paper that playing decides."""
    return [row for row in effects if not row["by_construction"] and row["source"] != UNPUBLISHED]


def _in_words(points: Points, unit: str = "points") -> tuple[str, Points]:
    """Return a difference as text and as it is."""
    difference, low, high = points
    return f"{difference:+.1f} {unit} [{low:+.1f}, {high:+.1f}]", points


def _points(results: Results, ours: str, base: str, metric: str, seed: int) -> tuple[str, Points]:
    """Return the difference of two agents in percentage points."""
    found = paired_difference(results[ours], results[base], metric, seed=seed, resamples=RESAMPLES)
    return _in_words((100 * found.difference, 100 * found.ci95[0], 100 * found.ci95[1]))


# -- BTP -----------------------------------------------------------------------------------------------------------------


def btp_effects(results: Results, rows: Sequence[Row], curves: Sequence[Row], seed: int = 0) -> list[Row]:
    """Check the claims of BTP's Section 3 at R = 20 and along both curves, under both gradings."""
    table = {row["agent"]: row for row in rows}
    bases = [name for name in table if "+" not in name]
    found: list[Row] = []
    for base in bases:
        before, rate = (table[name]["budget_failure_rate"] for name in (base, f"{base}+btp"))
        claim, text = f"{base}: with BTP no query fails because of the budget", f"RFBC {100 * before:.1f} to {100 * rate:.1f} %"
        found.append(effect(claim, text, rate == 0.0, source="Table 3", by=ENFORCED))
    for base in bases:
        row = table[f"{base}+btp"]
        if "planned_uses" in row:
            text = f"{row['used_cost']:.1f} of {row['planned_cost']:.1f}, {row['uses']:.1f} of {row['planned_uses']:.1f} uses"
            follows = row["used_cost"] < row["planned_cost"] and row["uses"] < row["planned_uses"]
            found.append(effect(f"{base}: less is used than planned", text, follows, source="Table 4", by=PLANNED))
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
            text, points = _points(results, f"{base}+btp", base, within, seed)
            gains[base], levels = points[0], _levels(table[base], table[f"{base}+btp"], within)
            paper = _published("btp", f"{base}+btp", base, "judged_pass_rate_under_budget") if grading == "judge" else None
            claim = f"{base}: BTP raises PBC"
            found.append(effect(claim, text, points[1] > 0, grading, "Table 2", points=points, paper=paper, levels=levels))
        rest = [gain for base, gain in gains.items() if base != "react"]
        measured = ", ".join(f"{base} {gain:+.1f}" for base, gain in gains.items())
        found.append(effect("PBC rises more for the tree searches", measured, min(rest) > gains["react"], grading, "Table 2"))
        for base in bases:
            text, points = _points(results, f"{base}+btp", base, passes, seed)
            claim = f"{base}: budget aside, BTP leaves PR unchanged (within {ALIKE:g} points, either way)"
            paper = _published("btp", f"{base}+btp", base, "judged_pass_rate") if grading == "judge" else None
            follows, levels = two_sided(*points[1:], margin=ALIKE) == "same", _levels(table[base], table[f"{base}+btp"], passes)
            found.append(effect(claim, text, follows, grading, "Table 3", points=points, paper=paper, levels=levels))
        for base in (name for name in bases if f"{name}+prompt" in results):
            text, (gain, *_) = _points(results, f"{base}+prompt", base, within, seed)
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
            series, costs = [value["R", at] for at in rs], [cost["R", at] for at in rs]
            measured = f"PBC {_series(rs, series)}; AC {_series(rs, costs)}"
            claim = f"{agent}: PBC and AC rise with R (each step, less 1 point)"
            follows = _rises(series, 1.0) and _rises(costs, 0.0)
            found.append(effect(claim, measured, follows, grading, "Figure 2"))
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
    """Check the claims of EcoAct's Sections 3.2 to 3.4: cost and passes by number of candidate tools, and two ablations. Those
    about agents that were not played are left out."""
    table = {(row["group"], row["agent"]): row for row in rows}
    names = list(scales)
    first, last = names[0], names[-1]
    bases = [base for base in ("react", "dfsdt") if (last, f"{base}+ecoact") in table]
    # the paper's changes of cost by group and base; above 20 tools it prints ReAct's alone
    costs = {(row["group"], row["agent"]): row["average_cost"] for row in published("ecoact") if "average_cost" in row}
    saved = {
        (group, agent): 100 * (costs[group, f"{agent}+ecoact"] / cost - 1)
        for (group, agent), cost in costs.items()
        if "+" not in agent
    }
    spread = pstdev(saved.values())
    found = []
    if "react" in bases:
        text, points = _change(scales[first], "react+ecoact", "react", seed)
        claim = f"react, {first} tools: EcoAct costs about as much (within 15 %)"
        found.append(effect(claim, text, two_sided(*points[1:], margin=15.0) == "same", source="Figure 3"))
        text, points = _change(scales[last], "react+ecoact", "react", seed)
        most = next(100 * row["cost_change"] for row in published("ecoact") if "cost_change" in row)
        paper = Printed(0.0, most, spread)
        claim = f"react, {last} tools: EcoAct costs at least 45 % less"
        found.append(effect(claim, text, points[2] <= -45.0, source="Figure 3", points=points, paper=paper))
        if "registered_share" in (row := table[last, "react+ecoact"]):
            share, low, high = (100 * value for value in (row["registered_share"], *row["ci95"]["registered_share"]))
            claim = f"react, {last} tools: about 30 % of the tools are registered (20 to 40 %)"
            text, paper = f"{share:.1f} % [{low:.1f}, {high:.1f}]", Printed(0.0, 30.0, 0.0)
            follows = two_sided(low, high, 30.0) == "same"
            found.append(effect(claim, text, follows, source="Figure 4", points=(share, low, high), paper=paper))
    if "dfsdt" in bases:
        text, points = _change(scales[last], "dfsdt+ecoact", "dfsdt", seed)
        paper = Printed(0.0, fmean(change for (_, base), change in saved.items() if base == "dfsdt"), spread)
        claim = f"dfsdt, {last} tools: EcoAct costs less"
        found.append(effect(claim, text, points[2] < 0, source="Table 2", points=points, paper=paper))
    ablations = [name for name in ("react+ecoact-several", "react+ecoact-described") if (last, name) in table]
    for grading, (passes, _) in PASSES.items():
        pairs = [(f"{base}+ecoact", base, scale) for base in bases for scale in names]
        pairs += [(name, "react+ecoact", scale) for scale in names[1:] for name in ablations]
        for ours, base, scale in pairs:
            text, points = _points(scales[scale], ours, base, passes, seed)
            printed = _published("ecoact", ours, base, passes) if grading == "judge" else None
            if ours.endswith("several"):
                claim, follows, source, by = "registering several at once loses PR", points[2] < 0, "Table 3", ""
            elif ours.endswith("described"):
                claim = f"telling descriptions leaves PR within {ALIKE:g} points"
                follows, source, by = two_sided(*points[1:], margin=ALIKE) == "same", "Table 4", LISTED
            else:
                claim = f"EcoAct costs at most {ALIKE:g} points of PR"
                follows, source, by = points[1] >= -ALIKE, "Tables 1 and 2", ""
            both = _levels(table[scale, base], table[scale, ours], passes)
            claim = f"{ours.partition('+')[0]}, {scale} tools: {claim}"
            found.append(effect(claim, text, follows, grading, source, by, points, printed, both))
    for scale in names[1:]:
        if "react+ecoact-described" in ablations:
            text, points = _change(scales[scale], "react+ecoact-described", "react+ecoact", seed)
            claim = f"react, {scale} tools: telling descriptions costs 30 % more or above"
            by = "the lengths of names and descriptions in the catalog decide it"
            found.append(effect(claim, text, points[1] >= 30.0, source="Table 4", by=by))
    return found


def _change(results: Results, ours: str, base: str, seed: int) -> tuple[str, Points]:
    """Return the change of an agent's cost against another's on the same tasks, in percent."""
    costs = np.array([[result.price for result in results[name]] for name in (ours, base)], np.float64)
    low, high = interval_ends(["change"], costs[0][:, None], costs[1][:, None], seed=seed)["change"]
    change, low, high = (100 * (ratio - 1) for ratio in (costs[0].sum() / costs[1].sum(), low, high))
    return _in_words((change, low, high), "%")


# -- ToolPlanner ---------------------------------------------------------------------------------------------------------


def toolplanner_effects(differences: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """Check the claims of ToolPlanner's Sections 5.3 and 5.5: comparison with plain tree search and with a retriever."""
    found = []
    table = {(row["level"], row["agent"]): row for row in differences}
    own = {(row["level"], row["agent"]): row for row in rows}
    levels = list(dict.fromkeys(level for level, _ in table))
    for level in levels:
        full, parts = (table[level, f"toolplanner{pair}"] for pair in (" less dfsdt", "-no-path less toolplanner-no-tags"))
        for metric, name in (("match_rate", "Match"), ("meaningful_rate", "Pass"), ("win_rate", "Win")):
            if metric in full:
                text, points = _measured(full, metric)
                paper = _published("toolplanner", "ToolPlanner", "ToolLLaMA-Tree", metric, level=level)
                both = _levels(own.get((level, "dfsdt"), {}), own.get((level, "toolplanner"), {}), metric)
                claim = f"{level}: {name} rises"
                found.append(effect(claim, text, points[1] > 0, source="Table 1", points=points, paper=paper, levels=both))
        if "match_rate" in parts:
            text, points = _measured(parts, "match_rate")
            paper = _published("toolplanner", "without path", "without tags", "match_rate", level=level)
            alone = [own.get((level, f"toolplanner-no-{part}"), {}) for part in ("tags", "path")]
            both = _levels(alone[0], alone[1], "match_rate")
            claim = f"{level}: tags raise Match more than paths"
            found.append(effect(claim, text, points[1] > 0, source="Table 5", points=points, paper=paper, levels=both))
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


def _measured(row: Row, metric: str) -> tuple[str, Points]:
    """Return a row's difference in points."""
    gain, low, high = (100 * value for value in (row[metric], *row["ci95"][metric]))
    return _in_words((gain, low, high))


# -- CATP-LLM ------------------------------------------------------------------------------------------------------------

PROMPTED = ("zero-shot", "few-shot", "hugginggpt", "hydra")
TABLES = {"sequential": "Table 2", "nonsequential": "Table 3"}
ORDER = {
    "sequential": ("ift", "rltf", "zero-shot", "few-shot", "hugginggpt", "hydra", "catp"),
    "nonsequential": ("ift", "rltf", "zero-shot", "hugginggpt", "few-shot", "hydra", "catp"),
}
"""The planners by the published Quality of Plan with GPT-4 and Llama2-7B, lowest first."""
PROMPTED_ORDER = (("few-shot", "zero-shot"), ("hugginggpt", "zero-shot"), ("hydra", "few-shot"), ("hydra", "hugginggpt"))


def catp_effects(rows: Sequence[Row], differences: Sequence[Row]) -> list[Row]:
    """Check the claims under one protocol, with the rows of `difference_row`; CATP's are checked for every weight."""
    table = {(row["tasks"], row["alpha"], row["agent"]): row for row in rows if row["group"] == AVERAGE}
    less = {(row["tasks"], row["alpha"], row["agent"]): row for row in differences}
    found: list[Row] = []

    def compare(claim: str, kind: str, ours: str, base: str, source: str, by: str = "", sign: int = 1) -> None:
        """Add the claim that the quality of the first is above (sign 1) or below (-1) that of the second."""
        row = less[kind, ALPHA, f"{ours} less {base}"]
        low, high = _ends(row)
        first, second = (f"{name}, GPT-4" if name in PROMPTED else name for name in (ours, base))
        paper = _published("catp", first, second, "quality_of_plan", 1.0, tasks=kind, group=AVERAGE)
        levels = _levels(table[kind, ALPHA, base], table[kind, ALPHA, ours], "quality_of_plan", 1.0)
        points, follows = (row.get("quality_of_plan", NONE), low, high), (low > 0 if sign > 0 else high < 0)
        found.append(effect(f"{kind}: {claim}", _told(row), follows, "", source, by, points, paper, levels, QUALITY_MARGIN))

    for kind in KINDS:
        for base in ORDER[kind][:-1][::-1]:
            compare(f"the Quality of Plan of CATP is above that of {base}", kind, "catp", base, TABLES[kind])
        # of the trained baselines the order is measured; of the prompted ones the simulated model decides it
        for above, below in (("rltf", "ift"), ("zero-shot", "rltf")):
            compare(f"{above} is above {below}", kind, above, below, TABLES[kind])
        for above, below in PROMPTED_ORDER:
            compare(f"{above} is above {below}", kind, above, below, TABLES[kind], PLAN_RATES)
        for alpha in (each for each in ALPHAS if each != ALPHA):
            best = max(PROMPTED, key=lambda name: table[kind, alpha, name].get("quality_of_plan", -1.0))
            row = less[kind, alpha, f"catp less {best}"]
            claim = f"{kind}, alpha {alpha:g}: CATP is above every prompted planner"
            found.append(effect(claim, f"above {best} by {_told(row)}", _ends(row)[0] > 0, source="Figure 6"))
    for base in ("zero-shot", "hydra"):
        row = less["nonsequential", ALPHA, f"catp less {base}"]
        follows = _ends(row, "average_seconds")[1] < 0
        claim = f"nonsequential: plans of CATP run faster than those of {base}"
        found.append(effect(claim, _told(row, "average_seconds", " s"), follows, source="Table 3"))
    for name, what in (("context", "context augmentation"), ("feedback", "intermediate feedback"), ("mask", "masking")):
        compare(f"without {what} the Quality of Plan falls", "sequential", f"catp-no-{name}", "catp", "Table 4", sign=-1)
    row = less["sequential", ALPHA, "catp-no-feedback less catp"]
    follows = _ends(row, "average_cost")[0] > 0
    claim = "sequential: without intermediate feedback plans cost more"
    found.append(effect(claim, _told(row, "average_cost", " USD"), follows, source="Table 4"))
    valid = table["sequential", ALPHA, "catp-no-mask"]["plan_validity"]
    claim = "sequential: without masking some plans are not valid"
    found.append(effect(claim, f"{100 * valid:.1f} % valid", valid < ALL, source="Table 4"))
    masked = min(table[kind, ALPHA, "catp"]["plan_validity"] for kind in KINDS)
    claim = "with masking every plan is valid"
    found.append(effect(claim, f"{100 * masked:.1f} % valid", masked >= ALL, source="Table 4", by=MASKED))
    if ("sequential", ALPHA, "catp-small less catp") in less:
        small = less["sequential", ALPHA, "catp-small less catp"]
        claim = f"sequential: a smaller policy is comparable (within {QUALITY_ALIKE:g}, either way)"
        follows = two_sided(*_ends(small), margin=QUALITY_ALIKE) == "same"
        found.append(effect(claim, _told(small), follows, source="Figure 7"))
        compare("a smaller policy is worse", "nonsequential", "catp-small", "catp", "Figure 7", sign=-1)
    return found


def _ends(row: Row, metric: str = "quality_of_plan") -> tuple[float, float]:
    """Return the interval; without an episode to compare, one for which no claim holds."""
    low, high = row["ci95"].get(metric, (NONE, NONE))
    return low, high


def _told(row: Row, metric: str = "quality_of_plan", unit: str = "") -> str:
    if metric not in row:
        return "no episode with a valid plan of both"
    low, high = _ends(row, metric)
    return f"{row[metric]:+.3f}{unit} [{low:+.3f}, {high:+.3f}]"


# -- DEER ----------------------------------------------------------------------------------------------------------------

DECIDERS = {
    "GPT-4": ("GPT-4, 6 shots", "deer (gpt-4)"),
    "GPT-3.5": ("GPT-3.5-Turbo, 6 shots", "deer (gpt-3.5-turbo)"),
    "LLaMA2-13B": ("LLaMA2-13B-Chat, 6 shots", "deer (llama2-13b-chat)"),
}
"""Names of the prompted deciders in the paper's rows and in ours, which have the paper's rates on our samples."""
TRAINED_DECIDERS = ("ToolDEER-13B", "zoo:deer")


def deer_effects(rows: Sequence[Row]) -> list[Row]:
    """Check the claims of DEER's Section 4 about the trained decider; none where it was not played."""
    table = {(row["split"], row["agent"]): row for row in rows}
    ours = TRAINED_DECIDERS[1]
    found: list[Row] = []
    for split, tools, metrics in (("valid", "seen", ("p_ds", "p_dc")), ("test", "unseen", ("p_dc",))):
        if (split, ours) not in table:
            continue
        source = "Table 1" if split == "valid" else "Table 3"
        for metric in metrics:
            shown = metric.upper()
            for name, (published_as, base) in DECIDERS.items():
                paper = _published("deer", TRAINED_DECIDERS[0], published_as, metric, split=split)
                claim = f"{tools} tools: {shown} of the trained decider is above that of {name}"
                text, points = _apart(table[split, ours], table[split, base], metric)
                both = _levels(table[split, base], table[split, ours], metric)
                found.append(effect(claim, text, points[1] > 0, "", source, points=points, paper=paper, levels=both))
            text, points = _apart(table[split, ours], table[split, "deer-rule"], metric)
            found.append(effect(f"{tools} tools: {shown} is above a rule's", text, points[1] > 0, source=UNPUBLISHED))
    if ("test", ours) in table:
        text, points = _apart(table["test", ours], table["valid", ours], "p_dc")
        printed = published("deer")
        values = {row["split"]: 100 * row["p_dc"] for row in printed if row["agent"] == TRAINED_DECIDERS[0]}
        both = _levels(table["valid", ours], table["test", ours], "p_dc")
        paper = Printed(values["valid"], values["test"], pstdev(100 * row["p_dc"] for row in printed))
        claim = f"P_DC on unseen tools is at most {ALIKE:g} points below that on seen ones"
        found.append(effect(claim, text, points[1] >= -ALIKE, "", "Table 3", points=points, paper=paper, levels=both))
    return found


def _apart(ours: Row, base: Row, metric: str) -> tuple[str, Points]:
    """Return the difference of two rows in points; the half-widths of their intervals add in squares."""
    (low, high), (least, most) = ours["ci95"][metric], base["ci95"][metric]
    gain = 100 * (ours[metric] - base[metric])
    below, above = (
        100 * hypot(near, far)
        for near, far in ((ours[metric] - low, most - base[metric]), (high - ours[metric], base[metric] - least))
    )
    return _in_words((gain, gain - below, gain + above))
