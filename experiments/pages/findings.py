"""Write sentences from a leaderboard's rows that say what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ..board.conditions import by_condition, condition_label, ranking_metric, row_key, shown_first
from ..board.rows import columns_of, is_metered, is_ranked, shown_name
from ..play.metric_registry import Row, figure, interval, plain, written
from ..play.metrics import GRADINGS
from .robustness import robustness_sentence

MAX_NAMES = 3
"""Agents that a sentence names; the others are counted."""


def finding(track: Mapping[str, Any], condition: str | None = None) -> str:
    """Write who is best in a track, how sure that is, and what a success costs.

    Args:
        track: a leaderboard, or a track as one (`tracks.track_documents`).
        condition: its key; None for the one in the middle, which tells most.
    """
    groups = ranked_groups(track)
    if not groups:
        return "No episode has been played yet."
    keys = [row_key(group[0], track) for group in groups]
    group = groups[keys.index(condition)] if condition in keys else groups[shown_first(groups)]
    return _best_of(group, track, len(groups) > 1) + _elsewhere(groups, group, track) + robustness_sentence(group[0], track)


def ranked_groups(track: Mapping[str, Any]) -> list[list[Row]]:
    """Return the ranked rows of each condition, best first; conditions without any are left out.

    Unmetered rows are among them only where no other row is ranked.
    """
    grading = _grading(track)
    rows = [row for row in track.get("rows") or [] if is_ranked(row)]
    rows = [row for row in rows if is_metered(row)] or rows
    return by_condition(rows, track, grading)


def within_noise(group: Sequence[Row], metric: str) -> list[Row]:
    """Return the rows that cannot be told from the first: its figure lies within their 95 % interval, or theirs within
    its own."""
    best, ends = figure(group[0], metric), interval(group[0], metric)

    def alike(row: Row) -> bool:
        value, own = figure(row, metric), interval(row, metric)
        if best is None or value is None:
            return False
        return (own is not None and own[0] <= best <= own[1]) or (ends is not None and ends[0] <= value <= ends[1])

    return [row for row in group[1:] if alike(row)]


def _best_of(group: Sequence[Row], track: Mapping[str, Any], several: bool) -> str:
    main, metric = columns_of(track)[0], ranking_metric(track, _grading(track))
    first, value, ends = group[0], figure(group[0], metric), interval(group[0], metric)
    unit = " %" if main.kind == "rate" else ""
    span = "" if ends is None else f" (95 %: {written(ends[0], main.kind)} to {written(ends[1], main.kind)})"
    where = f"{_under(condition_label(first, track))}, " if several else ""
    does = "passes most" if main.kind == "rate" else "has the best plan score"
    text = f"{where}{plain(shown_name(first))} {does}: {written(value, main.kind)}{unit}{span}"
    cost = figure(first, "judged_cost_per_success" if _grading(track) == "judge" else "cost_per_success")
    currency = (track.get("scenario") or {}).get("currency", "")
    if cost is not None and main.kind == "rate":
        text += f", at {written(cost, 'number')} {plain(currency)} a success".rstrip()
    others = [plain(shown_name(row)) for row in within_noise(group, metric)]
    if others:
        named, more = others[:MAX_NAMES], len(others) - MAX_NAMES
        names = ", ".join(named) + (f" and {more} more" if more > 0 else "")
        text += f"; {names} {'are' if len(others) > 1 else 'is'} within noise of it"
    text += "."
    return text


def _elsewhere(groups: Sequence[Sequence[Row]], shown: Sequence[Row], track: Mapping[str, Any]) -> str:
    """Write who leads under the other conditions."""
    leaders: dict[str, list[str]] = {}
    for group in groups:
        if group is not shown:
            leaders.setdefault(plain(shown_name(group[0])), []).append(condition_label(group[0], track))
    area = "judged_budget_area" if _grading(track) == "judge" else "budget_area"
    areas = [(value, plain(shown_name(row))) for row in groups[-1] if (value := figure(row, area)) is not None]
    if areas:
        leaders.setdefault(max(areas)[1], []).append("over all budgets together")
    said = [f"{agent} {_listed(labels)}" for agent, labels in leaders.items()]
    if not said:
        return ""
    if list(leaders) == [plain(shown_name(shown[0]))]:
        return f" So it does {_listed(leaders[plain(shown_name(shown[0]))])}."
    return f" Best elsewhere: {'; '.join(said)}."


def _under(label: str) -> str:
    """Write a condition's label with its preposition."""
    return f"{'On' if 'tasks' in label else 'Under' if '×' in label else 'At'} {label}"


def _listed(labels: Sequence[str]) -> str:
    if len(labels) > MAX_NAMES + 1 or (len(labels) > 1 and "×" in labels[0]):
        return f"under {len(labels)} other conditions"
    each = [label if label.startswith("over") else _under(label) for label in labels]
    each = [label[0].lower() + label[1:] for label in each]
    return " and ".join([", ".join(each[:-1]), each[-1]]) if len(each) > 1 else each[0]


def gains(track: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Compute what each addition (`+btp`, `+ecoact`) brings to the strategies played with and without it, a row for
    each condition.

    Returns:
        Addition, condition and number of strategies; under each grading the mean change of the pass rate within the budget, in
        points, and the mean cost per success without and with the addition, None where nothing passes.
    """
    found = []
    for group in ranked_groups(track):
        by_agent = {str(row["agent"]): row for row in group}
        parts = [name.partition("+") for name in by_agent]
        additions = sorted({added for base, plus, added in parts if plus and base in by_agent})
        for addition in additions:
            bases = {name: base for name in by_agent for base, _, added in [name.partition("+")] if added == addition}
            pairs = [(by_agent[base], by_agent[name]) for name, base in bases.items() if base in by_agent]
            label = condition_label(group[0], track)
            row: dict[str, Any] = {"addition": f"+{addition}", "condition": label, "strategies": len(pairs)}
            for grading in GRADINGS:
                prefix = "judged_" if grading == "judge" else ""
                passes = f"{prefix}pass_rate_under_budget"
                row[grading] = fmean((figure(b, passes) or 0.0) - (figure(a, passes) or 0.0) for a, b in pairs)
                ahead = [(figure(b, passes) or 0.0) > (figure(a, passes) or 0.0) for a, b in pairs]
                row[f"{grading}_gaining"] = sum(ahead)
                for place, side in enumerate(("without", "with")):
                    costs = [figure(pair[place], f"{prefix}cost_per_success") for pair in pairs]
                    known = [cost for cost in costs if cost is not None]
                    row[f"{grading}_{side}"] = fmean(known) if len(known) == len(pairs) else None
            found.append(row)
    return sorted(found, key=lambda row: row["addition"])


def _grading(track: Mapping[str, Any]) -> str:
    grading = track.get("grading")
    return grading if grading in GRADINGS else GRADINGS[0]
