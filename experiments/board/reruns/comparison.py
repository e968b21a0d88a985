"""A rerun beside what was claimed: whether rows agree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...play.results import EpisodeResult
from ...play.statistics import independent_trials
from ..conditions import PASS_RATE, condition_key
from ..run_config import RunConfig
from ..submissions.alarms import Signs
from ..tracks import track_of
from .configuration import unpublished_tracks

LEVEL = 0.01
"""By either figure that is compared, an honest submission has a row that falls less often than this, whatever its rows."""
RERUN = "rerun"
"""What `verified` says of a row whose agent was run again on unpublished seeds and agreed; also the folder that says so."""
WORLD_SD = {"text": 0.02, "numbers": 0.05, "decisions": 0.045}
"""Standard deviation of an honest agent's pass rate between worlds that differ in their seed, beyond what episodes explain.

Of each track the largest of our agents, over 17 worlds at the settings of the suite `quick`.
"""
LEAD_TRACKS = frozenset({"text", "numbers"})
"""Tracks whose agents choose among tools for one need. An honest agent's lead does not vary between worlds beyond its error."""


class Played(NamedTuple):
    """An episode, and what it shows of its agent."""

    result: EpisodeResult
    signs: Signs


@dataclass(frozen=True, slots=True)
class RerunRow:
    """A row of a submission beside its rerun.

    Attributes:
        track, agent, budget, settings: which.
        metric: the figure that is compared, the one that ranks the track.
        claimed, rerun: its values.
        trials: how many independent trials stand behind each.
        p_value: of a difference at least so large in the claim's favour, if both were the same agent's by chance; times the
            number of rows compared (Bonferroni).
        unpublished: the rerun met worlds that nobody knew. Worlds that are recorded data stay the public ones.
        lead: by how much more reliable the tools are that the agent chose than others for the same need, in the claim and in
            the rerun, over all rows of the agent in the track; None where agents do not choose among such tools.
        sandboxed: the agent's process could reach nothing but what it was sent, or ran code of costgym alone.
        lead_p_value: as `p_value`, of the difference in lead; times the number of agents and tracks compared.
    """

    track: str
    agent: str
    budget: dict[str, float]
    settings: dict[str, Any]
    metric: str
    claimed: float
    rerun: float
    trials: tuple[float, float]
    p_value: float
    unpublished: bool = True
    lead: tuple[float, float] | None = None
    lead_p_value: float = 1.0
    sandboxed: bool = True

    @property
    def agrees(self) -> bool:
        return min(self.p_value, self.lead_p_value) >= LEVEL

    @property
    def key(self) -> tuple[str, str]:
        """The agent and its condition."""
        return self.agent, condition_key(self.budget, self.settings, self.track)

    def document(self) -> dict[str, Any]:
        """Return the part of a leaderboard's row that tells of its rerun."""
        return {
            "metric": self.metric,
            "claimed": self.claimed,
            "rerun": self.rerun,
            "trials": list(self.trials),
            "p_value": float(f"{self.p_value:.6g}"),
            "agrees": self.agrees,
            "unpublished": self.unpublished,
            "sandboxed": self.sandboxed,
            **({} if self.lead is None else {"lead": list(self.lead), "lead_p_value": float(f"{self.lead_p_value:.6g}")}),
        }

    def said(self) -> str:
        """The comparison in a line."""
        unit, scale = (" %", 100.0) if self.metric == PASS_RATE else ("", 1.0)
        said = f"claimed {scale * self.claimed:.3g}{unit}, again {scale * self.rerun:.3g}{unit}, p = {self.p_value:.3g}"
        if self.lead is not None and self.lead_p_value < LEVEL:
            said += (
                f"; the tools it chose are more reliable than their rivals by {self.lead[0]:.2f}, again by {self.lead[1]:.2f}, "
                f"p = {self.lead_p_value:.3g}"
            )
        said = said if self.unpublished else f"{said} (on the public tasks)"
        return said if self.sandboxed else f"{said} (own code without a sandbox)"


def compare(run: RunConfig, rerun: RunConfig, claimed: Iterable[Played], again: Iterable[Played]) -> list[RerunRow]:
    """Compare every row of a rerun with that of the submission, both from their episodes.

    The figure that ranks the track is compared row by row, the lead of the chosen tools once for an agent and a track.

    Args:
        run: that the submission was played in.
        rerun: its rerun.
        claimed, again: episodes of the submission and of the rerun.
    """
    sides = [by_row(played) for played in (claimed, again)]
    unpublished = unpublished_tracks(run, rerun)
    rows: list[RerunRow] = []
    for row in rerun.rows():
        key = row.agent, condition_key(row.condition.budget, row.condition.settings, row.track.name)
        if not sides[0].get(key) or not sides[1].get(key):
            continue
        metric, name = row.track.ranked_by, row.track.name
        values = [_values([each.result for each in side[key]], metric, row.track.seeds) for side in sides]
        spread = WORLD_SD.get(name, 0.0) if name in unpublished else 0.0
        means, trials, p_value = _compared(values[0], values[1], metric == PASS_RATE, spread)
        about = name, row.agent, dict(row.condition.budget), dict(row.condition.settings)
        rows.append(RerunRow(*about, metric, *means, trials, p_value, name in unpublished))
    leads = _leads(rerun, sides)
    found = []
    for each in rows:
        p_value = min(1.0, each.p_value * len(rows))
        lead, lead_p_value = leads.get((each.track, each.agent), (None, 1.0))
        if lead is not None:
            lead_p_value = min(1.0, lead_p_value * len(leads))
        found.append(replace(each, p_value=p_value, lead=lead, lead_p_value=lead_p_value))
    return found


def _leads(
    rerun: RunConfig, sides: Sequence[Mapping[tuple[str, str], Sequence[Played]]]
) -> dict[tuple[str, str], tuple[tuple[float, float], float]]:
    """The lead of the chosen tools in the claim and in the rerun, and the p-value of the difference, by track and agent."""
    found = {}
    for track in rerun.tracks:
        for agent in track.agents if track.name in LEAD_TRACKS else ():
            keys = [(agent, condition_key(each.budget, each.settings, track.name)) for each in track.conditions]
            played = [[each for key in keys for each in side.get(key, ())] for side in sides]
            (claimed, first), (again, second) = (_lead(each, track.seeds) for each in played)
            if math.isnan(claimed) or math.isnan(again):
                continue
            p_value = _tail(claimed - again, math.sqrt(first + second))
            found[track.name, agent] = (float(f"{claimed:.12g}"), float(f"{again:.12g}")), p_value
    return found


def _lead(played: Sequence[Played], seeds: int) -> tuple[float, float]:
    """The mean lead of the chosen tools and its variance; episodes of one task count as one cluster. NaN for fewer than two."""
    clusters: dict[int, list[Signs]] = {}
    for each in played:
        clusters.setdefault(each.result.episode // seeds, []).append(each.signs)
    sums = [(sum(s.lead for s in signs), sum(s.choices for s in signs)) for _, signs in sorted(clusters.items())]
    sums = [(lead, choices) for lead, choices in sums if choices]
    count = sum(choices for _, choices in sums)
    if len(sums) < 2:
        return math.nan, math.nan
    mean = sum(lead for lead, _ in sums) / count
    squares = sum((lead - mean * choices) ** 2 for lead, choices in sums)
    return mean, squares * len(sums) / (len(sums) - 1) / count**2


def by_row(played: Iterable[Played]) -> dict[tuple[str, str], list[Played]]:
    """Sort episodes by agent and condition, as `RerunRow.key` has them."""
    found: dict[tuple[str, str], list[Played]] = {}
    for each in played:
        result = each.result
        key = result.agent, condition_key(result.budget, result.settings, track_of(result.env, result.settings))
        found.setdefault(key, []).append(each)
    return found


def _values(results: Sequence[EpisodeResult], metric: str, seeds: int) -> np.ndarray[Any, Any]:
    """Return the value of each episode, the episodes of one task in a row: (n_tasks, seeds). NaN where there is none,
    or a void one."""
    count = max(result.episode for result in results) + 1
    values = np.full(-(-count // seeds) * seeds, np.nan)
    for result in results:
        if not result.void:
            passed = float(result.strict and result.within_budget)
            values[result.episode] = passed if metric == PASS_RATE else float(result.quality or 0.0)
    return values.reshape(-1, seeds)


def _compared(
    claimed: np.ndarray[Any, Any], again: np.ndarray[Any, Any], share: bool, spread: float
) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Both means, the trials behind them, and the one-sided p-value of the difference.

    Args:
        claimed, again: values of the episodes, as `_values` has them.
        share: the figure is a share of passes.
        spread: standard deviation of the figure between the two sides' worlds.
    """
    means, trials, errors = [], [], []
    for values in (claimed, again):
        known = ~np.isnan(values)
        mean = float(np.nanmean(values)) if known.any() else 0.0
        count = independent_trials(np.where(known, values, 0.0), known.astype(float)) if share else float(known.sum())
        means.append(mean)
        trials.append(max(count, 1.0))
        errors.append(float(np.nanvar(values)) if known.any() else 0.0)
    if share:
        # pooled, because both sides are one agent if the claim is honest; never 0, so that flawless rows can be compared
        pooled = (means[0] * trials[0] + means[1] * trials[1]) / sum(trials)
        errors = [max(pooled * (1.0 - pooled), 1e-9)] * 2
    chance = sum(each / count for each, count in zip(errors, trials, strict=True))
    p_value = _tail(means[0] - means[1], math.sqrt(chance + 2.0 * spread**2))
    rounded = [float(f"{each:.12g}") for each in (*means, *trials)]
    return (rounded[0], rounded[1]), (rounded[2], rounded[3]), p_value


def _tail(difference: float, error: float) -> float:
    """The chance of a difference at least so large, of the normal distribution."""
    return 0.5 * math.erfc(difference / max(error, 1e-9) / math.sqrt(2.0))


def with_reruns(
    rows: Sequence[Mapping[str, Any]], reran: Sequence[RerunRow], keys: Sequence[tuple[str, str]]
) -> list[dict[str, Any]]:
    """Rows of a submission with what their rerun says: `verified`, `rerun`, and an alarm where a row falls.

    Args:
        rows: as the leaderboard shows them.
        reran: the comparison.
        keys: the agent and condition of each row, as `RerunRow.key`.
    """
    by_key = {each.key: each for each in reran}
    found = []
    for row, key in zip(rows, keys, strict=True):
        each = by_key.get(key)
        changed = dict(row)
        if each is not None:
            changed[RERUN] = each.document()
            if each.agrees and each.unpublished and each.sandboxed:
                changed["verified"] = RERUN
            elif not each.agrees:
                said = f"the rerun falls short of the claim: {each.said()} (by chance, in one honest submission of 50 at most)"
                changed["alarms"] = [*(row.get("alarms") or ()), said]
        found.append(changed)
    return found
