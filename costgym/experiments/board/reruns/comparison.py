"""A rerun beside what was claimed: whether rows agree, and the rows that are ranked."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from costgym.envs.base import WORLD
from costgym.experiments.board.conditions import PASS_RATE, Condition, condition_key, grouped
from costgym.experiments.board.reruns.configuration import pooled, unpublished_tracks, without_world
from costgym.experiments.board.reruns.equivalence import (
    LEVEL,
    OTHER_WORLD_SD,
    WORLD_SD,
    Z95,
    Gap,
    WorldSide,
    gap_of,
    tail,
    tasks_needed,
    tidy,
    too_few,
)
from costgym.experiments.board.reruns.references import REFERENCES, columns, play_references, value_of
from costgym.experiments.board.rows import BY_EPISODE
from costgym.experiments.board.run_config import RunConfig, TrackConfig
from costgym.experiments.board.submissions.alarms import Played
from costgym.experiments.board.tracks import charges_tokens, track_of
from costgym.experiments.play.results import EpisodeResult

RERUN = "rerun"  # `verified` of a row whose figures are from its agent's run on secret seeds; also the folder that holds it
SHARES = frozenset({PASS_RATE, "value_share"})  # figures that rank and lie between 0 and 1
LEAD_TRACKS = frozenset({"text", "numbers"})  # agents choose among tools there; an honest lead does not vary between worlds


@dataclass(frozen=True, slots=True)
class RerunRow:
    """A row of a submission beside its rerun; the rerun's value is the mean of its worlds."""

    track: str
    agent: str
    budget: dict[str, float]
    settings: dict[str, Any]
    metric: str  # the figure that ranks the track
    claimed: float
    rerun: float
    gap: Gap  # between the two, and what the rerun comes to in the claim's world; see `equivalence`
    worlds: int  # how many secret worlds it was played in
    references: dict[str, tuple[float, float]]  # mean values of the reference agents in the claim's world and in the rerun's
    tasks: int  # how many tasks each world had
    needed: int | None  # how many are needed, at least, so that a claim can be confirmed; see `equivalence.tasks_needed`
    rows: int = 1  # how many rows were compared, by which p-values are multiplied
    unpublished: bool = True  # the rerun met worlds that nobody knew. Worlds that are recorded data stay the public ones.
    sandboxed: bool = True  # the agent's process could reach nothing but what it was sent, or ran code of costgym alone
    lead: tuple[float, float] | None = None  # of the chosen tools, claimed and again; None where there are no such choices
    lead_p_value: float = 1.0  # of the difference in lead, times the number of agents and tracks compared
    figures: Mapping[str, Any] = field(default_factory=dict)  # the row as the rerun derives it

    @property
    def p_value(self) -> float:
        return min(1.0, self.gap.p_value * self.rows)

    @property
    def claim(self) -> str:
        """The verdict on the claim: `confirmed`, `refuted` or `undecided`."""
        if self.lead_p_value < LEVEL:
            return "refuted"
        return "confirmed" if self.gap.confirmed else "refuted" if self.p_value < LEVEL else "undecided"

    @property
    def agrees(self) -> bool:
        return self.claim != "refuted"

    @property
    def key(self) -> tuple[str, str]:
        """The agent and its condition."""
        return self.agent, condition_key(self.budget, self.settings, self.track)

    def on_board(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The submission's row with the figures of its rerun, which rank it."""
        kept = {name: row[name] for name in ("agent", "submission", "verified", "alarms") if name in row}
        changed = {**self._ranked(), **kept, RERUN: self.document()}
        if self.unpublished and self.sandboxed:
            changed["verified"] = RERUN
        if not self.agrees:
            said = f"the claim falls in the rerun: {self.said()} (by chance, in one honest submission of 50 at most)"
            changed["alarms"] = [*(row.get("alarms") or ()), said]
        return changed

    def _ranked(self) -> dict[str, Any]:
        """The row as the rerun derives it, with the figure that ranks as it comes to in the claim's world."""
        # its episodes have luck of their own, so no other row can be paired with them
        figures = {name: value for name, value in self.figures.items() if name != BY_EPISODE}
        if not self.sandboxed and charges_tokens(self.track):
            figures["metered"] = False
        if not self.unpublished:
            return figures
        reach = Z95 * self.gap.rerun_error
        ends = tidy(*(self.gap.rerun + side * reach for side in (0.0, -1.0, 1.0)))
        value, low, high = (min(1.0, max(0.0, end)) for end in ends) if self.metric in SHARES else ends
        return {**figures, self.metric: value, "ci95": {**figures["ci95"], self.metric: [low, high]}}

    def document(self) -> dict[str, Any]:
        """Return the part of a leaderboard's row that tells of its rerun."""
        return {
            "metric": self.metric,
            "claim": self.claim,
            "claimed": self.claimed,
            "rerun": self.rerun,
            "adjusted": tidy(self.gap.rerun)[0],
            "gap": tidy(self.gap.gap)[0],
            "gap_ci90": tidy(*self.gap.ci90),
            "p_value": tidy(self.p_value)[0],
            "worlds": self.worlds,
            "references": {name: list(values) for name, values in self.references.items()},
            "unpublished": self.unpublished,
            "sandboxed": self.sandboxed,
            **({} if self.lead is None else {"lead": list(self.lead), "lead_p_value": tidy(self.lead_p_value)[0]}),
        }

    def said(self) -> str:
        """The comparison in a line."""
        unit, scale = (" points", 100.0) if self.metric == PASS_RATE else ("", 1.0)
        low, high = (scale * end for end in self.gap.ci90)
        said = (
            f"claimed {scale * self.claimed:.3g}, again {scale * self.rerun:.3g}; beside the references the claim is higher by "
            f"{scale * self.gap.gap:.1f} ({low:.1f} to {high:.1f}){unit}, p = {self.p_value:.3g}"
        )
        if self.lead is not None and self.lead_p_value < LEVEL:
            said += (
                f"; the tools it chose are more reliable than their rivals by {self.lead[0]:.2f}, again by {self.lead[1]:.2f}, "
                f"p = {self.lead_p_value:.3g}"
            )
        few = too_few(self.tasks, self.needed) if self.claim == "undecided" else ""
        said += f"; {few}" if few else ""
        said = said if self.unpublished else f"{said} (on the public tasks)"
        return said if self.sandboxed else f"{said} (own code without a sandbox)"


def compare(
    run: RunConfig, rerun: RunConfig, claimed: Iterable[Played], again: Iterable[Played], data: str | None = None
) -> list[RerunRow]:
    """Compare every row of a rerun with that of the submission, both from their episodes: the figure that ranks the track row
    by row, the lead of the chosen tools once for an agent and a track."""
    sides = [by_row(played) for played in (claimed, again)]
    whole, unpublished = pooled(rerun, ())[0], unpublished_tracks(run, rerun)
    rows: list[RerunRow] = []
    for track, inside in zip(whole.tracks, rerun.tracks, strict=True):
        public = run.track(track.name)
        for condition in track.conditions:
            asked = next(each for each in public.conditions if each.key == condition.key)
            places = [(public, asked, run.seed)]
            keys = [(condition_key(own.budget, without_world(own.settings)), own) for own in inside.conditions]
            places += [(inside, own, rerun.seed) for key, own in keys if key == condition.key]
            references: list[list[list[EpisodeResult]]] = []
            for agent in track.agents:
                key = agent, condition_key(condition.budget, condition.settings, track.name)
                played = [side.get(key, []) for side in sides]
                if not all(played):
                    continue
                references = references or [play_references(*place, data) for place in places]
                rows.append(_compared(inside, condition, agent, played, references, track.name in unpublished))
    leads = _leads(whole, sides)
    found = []
    for each in rows:
        lead, lead_p_value = leads.get((each.track, each.agent), (None, 1.0))
        found.append(replace(each, rows=len(rows), lead=lead, lead_p_value=min(1.0, lead_p_value * max(1, len(leads)))))
    return found


def _compared(
    track: TrackConfig,
    condition: Condition,
    agent: str,
    sides: Sequence[Sequence[Played]],
    references: Sequence[list[list[EpisodeResult]]],
    unpublished: bool,
) -> RerunRow:
    """A row of the comparison: the agent's episodes in the claim's world and in those of the rerun, and the references'."""
    metric = track.ranked_by
    claimed, again = ([played.result for played in side] for side in sides)
    worlds = grouped(again, _world)
    groups = [claimed, *(worlds[number] for number in sorted(worlds))]
    views = [
        WorldSide(
            np.array([value_of(result, metric) for result in group]),
            columns(group, own, metric),
            np.array([result.episode // track.seeds for result in group]),
        )
        for group, own in zip(groups, references, strict=True)
    ]
    around = [np.mean(side.references, axis=0) for side in views]
    names = (*REFERENCES.get(track.name, ()), "optimum")
    beside = {
        name: (tidy(around[0][place])[0], tidy(float(np.mean([each[place] for each in around[1:]])))[0])
        for place, name in enumerate(names)
    }
    about = track.name, agent, dict(condition.budget), dict(condition.settings), metric
    means = _mean(views[0].values), _mean(np.concatenate([side.values for side in views[1:]]))
    between = WORLD_SD.get(track.name, OTHER_WORLD_SD) if unpublished else 0.0
    gap = gap_of(views[0], views[1:], between, metric in SHARES)
    tasks = len(np.unique(views[0].tasks))
    own = tasks * (gap.error**2 / (1.0 + 1.0 / len(worlds)) - between**2)
    needed = tasks_needed(own, between, len(worlds), metric in SHARES) if math.isfinite(own) else None
    return RerunRow(*about, *means, gap, len(worlds), beside, tasks, needed, unpublished=unpublished)


def _world(result: EpisodeResult) -> int:
    return int(result.settings.get(WORLD, 0))


def _mean(values: np.ndarray[Any, Any]) -> float:
    return float(f"{values.mean():.12g}") if len(values) else 0.0


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
            p_value = tail(claimed - again, math.sqrt(first + second))
            found[track.name, agent] = (float(f"{claimed:.12g}"), float(f"{again:.12g}")), p_value
    return found


def _lead(played: Sequence[Played], seeds: int) -> tuple[float, float]:
    """The mean lead of the chosen tools and its variance; episodes of one task count as one cluster. NaN for fewer than two."""
    clusters = grouped(played, lambda each: (_world(each.result), each.result.episode // seeds))
    ordered = [[each.signs for each in clusters[place]] for place in sorted(clusters)]
    sums = [(sum(s.lead for s in signs), sum(s.choices for s in signs)) for signs in ordered]
    sums = [(lead, choices) for lead, choices in sums if choices]
    count = sum(choices for _, choices in sums)
    if len(sums) < 2:
        return math.nan, math.nan
    mean = sum(lead for lead, _ in sums) / count
    squares = sum((lead - mean * choices) ** 2 for lead, choices in sums)
    return mean, squares * len(sums) / (len(sums) - 1) / count**2


def by_row(played: Iterable[Played]) -> dict[tuple[str, str], list[Played]]:
    """Sort episodes by agent and condition, as `RerunRow.key` has them."""

    def key(each: Played) -> tuple[str, str]:
        result = each.result
        track = track_of(result.env, result.settings)
        return result.agent, condition_key(result.budget, without_world(result.settings), track)

    return grouped(played, key)
