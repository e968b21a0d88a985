"""Which agent to take under a condition, and at what cost: the first answer of the terminal and of a track's page.

A budget is always the limit that agents played under. The answer is decided by the figures that are shown: the highest mean
leads, and the paired test says which other agents cannot be told from it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from costgym.experiments.board.conditions import (
    PASS_RATE,
    by_condition,
    condition_label,
    currency_of,
    grading_of,
    ranking_metric,
    seeds_of,
    shown_first,
)
from costgym.experiments.board.rows import (
    as_good,
    blocks,
    columns_of,
    episodes_to_tell_apart,
    is_ranked,
    is_simulated,
    rivals_text,
    shown_name,
)
from costgym.experiments.play.metric_registry import REGISTRY, Row, brief, estimate, figure, plain, with_unit

NOBODY = "no agent has a success."
UNITS = {"rate": "%"}  # of kinds of figures


class Answer(NamedTuple):
    """The answer under one condition, of rows that are ranked together."""

    leader: Row | None  # None where no agent achieves anything
    cheapest: Row | None  # the lowest cost of a success
    sentence: str


def answer(rows: Sequence[Row], track: Mapping[str, Any], grading: str) -> Answer:
    """Answer from the ranked rows of one condition and one block (`board.rows.blocks`), the best first."""
    key, thrift = ranking_metric(track, grading), REGISTRY["cost_per_success"].key_under(grading)
    condition = condition_label(rows[0], track)
    condition = condition[:1].upper() + condition[1:]
    leader, *others = rows
    if not figure(leader, key) and columns_of(track)[0].kind == "rate":
        return Answer(None, None, plain(f"{condition}: {NOBODY}"))
    alike = as_good(leader, others, key, seeds_of(track))
    rivals = rivals_text([(plain(shown_name(row)), tie) for row, tie in zip(others, alike, strict=True)]) if others else ""
    if others and alike[0] and (needed := episodes_to_tell_apart(leader, others[0], key, seeds_of(track))) is not None:
        rivals += f" About {needed:,} episodes would tell it from {plain(shown_name(others[0]))}."
    paid = [row for row in rows if figure(row, thrift) is not None]
    cheapest = min(paid, key=lambda row: figure(row, thrift) or 0.0, default=None)
    sentence = f"{condition}: {_name(leader)}, {main_figure(leader, track, grading)}"
    if cost := cost_of_success(leader, track, grading):
        sentence += f", {cost}"
    return Answer(leader, cheapest, plain(f"{sentence}. {rivals}".rstrip()))


def answer_first(track: Mapping[str, Any]) -> Answer | None:
    """The answer under the condition that a page shows first. Agents with a simulated language model, or with tokens that only
    they counted, are named only where there are no others; None without a ranked row."""
    rows = track.get("rows") or []
    grading = grading_of(rows)
    groups = by_condition([row for row in rows if is_ranked(row)], track, grading)
    return answer(blocks(groups[shown_first(groups)])[0][1], track, grading) if groups else None


def main_figure(row: Row, track: Mapping[str, Any], grading: str) -> str:
    """The figure that ranks, in words: ``success 96 % (91–98)``."""
    metric = columns_of(track)[0]
    text = estimate(row, ranking_metric(track, grading), metric.kind, brief)
    value, _, ends = text.partition(" ")
    return " ".join(filter(None, (metric.name.lower(), with_unit(value, UNITS.get(metric.kind, "")), ends)))


def cost_of_success(row: Row, track: Mapping[str, Any], grading: str) -> str:
    """The cost of a success in words, ``13 ¢ a success``; "" where it is not measured."""
    thrift = figure(row, REGISTRY["cost_per_success"].key_under(grading))
    if columns_of(track)[0].key != PASS_RATE or thrift is None:
        return ""
    return f"{with_unit(brief(thrift), currency_of(track))} a success"


def _name(row: Row) -> str:
    return f"{shown_name(row)} (simulated model)" if is_simulated(row) else shown_name(row)
