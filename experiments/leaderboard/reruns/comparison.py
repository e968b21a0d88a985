"""A rerun beside what was claimed: the secret that its seed follows from, its configuration, and whether rows agree."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ....simulators.errors import ConfigError, DataError
from ...results import EpisodeResult
from ...statistics import independent_trials
from ...trajectories.format import decode_once
from ..conditions import PASS_RATE, condition_key
from ..run_config import ALL_VIEWS, RunConfig
from ..submissions.manifest import Submission, manifest_digest
from ..tracks import track_of

LEVEL = 0.01
"""An honest submission has a row that falls less often than this, whatever its number of rows."""
RERUN = "rerun"
"""What `verified` says of a row whose agent was run again on unpublished seeds and agreed; also the folder that says so."""
RECORD = "rerun.json"
OUTCOMES = "outcomes.npz"
"""The outcome table of a rerun of plans, beside its record, where it is not the public one."""
STANDARD_INPUT = "-"
PLANS = "plans"
"""The track whose samples ship with the package: other ones need an outcome table of one's own."""


class Record(BaseModel):
    """`rerun.json`: what was run again, and by which secret.

    Attributes:
        manifest: hash of the submission's manifest.
        secret: published with the rerun; the seed follows from it.
        commitment: its hash, which was published before.
        episodes: of every row at most; None for all that were handed in.
        outcomes: digest of the outcome table that plans were run on, where it is not the public one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal["costgym.rerun/1"] = "costgym.rerun/1"
    manifest: str
    secret: str = Field(min_length=32, max_length=1000)
    commitment: str
    episodes: int | None = Field(default=None, ge=1)
    outcomes: str | None = None

    def to_json(self) -> str:
        """The record as it is written."""
        return json.dumps(self.model_dump(mode="json"), indent=1) + "\n"

    def problems(self, manifest: Submission) -> list[str]:
        """List how the record contradicts itself or the submission."""
        found = []
        if self.manifest != manifest_digest(manifest):
            found.append(f"{RECORD}: is of another submission")
        if self.commitment != commitment_of_text(self.secret):
            found.append(f"{RECORD}: the secret does not fit the commitment")
        return found


def read_record(folder: Path) -> Record:
    """Read what a rerun's folder holds; raises DataError where that is no record."""
    path = folder / RECORD
    try:
        return Record.model_validate(decode_once(path.read_text(encoding="utf-8")))
    except (ValidationError, ValueError, RecursionError) as error:
        raise DataError(path, "is no record of a rerun; `costgym rerun` writes one") from error
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror}; expected the folder that `costgym rerun` wrote") from error


def read_secret(path: Path) -> str:
    """Read a secret from a file, or from standard input where the path is ``-``."""
    try:
        text = (sys.stdin.read() if str(path) == STANDARD_INPUT else path.read_text(encoding="ascii")).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(path, f"cannot be read as a secret ({error})") from error
    if len(text) < 32:
        raise DataError(path, f"expected a secret of at least 32 characters, got {len(text)}")
    return text


def commitment_of_text(secret: str) -> str:
    """The hash that commits to a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def seed_of_text(secret: str) -> int:
    """The seed that follows from a secret."""
    return int.from_bytes(hashlib.sha256(f"costgym rerun {secret}".encode()).digest()[:8], "big") >> 4


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
        unpublished: the rerun met worlds that nobody knew. Without a table of one's own, plans are run on the public samples.
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

    @property
    def agrees(self) -> bool:
        return self.p_value >= LEVEL

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
        }

    def said(self) -> str:
        """The comparison in a line."""
        unit, scale = (" %", 100.0) if self.metric == PASS_RATE else ("", 1.0)
        return f"claimed {scale * self.claimed:.3g}{unit}, again {scale * self.rerun:.3g}{unit}, p = {self.p_value:.3g}" + (
            "" if self.unpublished else " (on the public samples)"
        )


def rerun_config(manifest: Submission, seed: int, episodes: int | None, outcomes: str | Path | None = None) -> RunConfig:
    """The submission's run on another seed, with the rows that were handed in.

    Args:
        manifest: of the submission.
        seed: of the rerun.
        episodes: of every row at most; None for as many as were handed in.
        outcomes: an outcome table that plans are run on, instead of the submission's.
    """
    tracks = []
    for track in manifest.run.tracks:
        agents = tuple(dict.fromkeys(file.agent for file in manifest.files if file.track == track.name))
        if not agents:
            continue
        conditions = tuple(
            each if episodes is None else each.model_copy(update={"episodes": min(episodes, each.episodes)})
            for each in track.conditions
        )
        track = track.model_copy(update={"agents": agents, "conditions": conditions})
        tracks.append(_on_table(track, outcomes) if outcomes is not None and track.name == PLANS else track)
    if not tracks:
        raise ConfigError("--submission", "nothing in it can be rerun")
    return manifest.run.model_copy(update={"tracks": tuple(tracks), "seed": seed, "release": None})


def _on_table(track: Any, outcomes: str | Path) -> Any:
    """A track of plans on another outcome table."""
    from ....simulators.opencatp.scoring.table import OutcomeTable

    scenario = {**track.scenario, "outcomes": OutcomeTable.load(outcomes).digest}
    settings = {**track.settings, ALL_VIEWS: {**track.settings.get(ALL_VIEWS, {}), "outcomes": str(outcomes)}}
    return track.model_copy(update={"scenario": scenario, "settings": settings})


def compare(
    config: RunConfig, claimed: Iterable[EpisodeResult], again: Iterable[EpisodeResult], own_table: bool = False
) -> list[RerunRow]:
    """Compare the ranking figure of every row of a rerun with that of the submission, both from their episodes.

    Args:
        config: of the rerun.
        claimed, again: episodes of the submission and of the rerun.
        own_table: plans were run on an outcome table that nobody knew.
    """
    sides = [_by_row(results) for results in (claimed, again)]
    found = []
    for row in config.rows():
        key = row.agent, condition_key(row.condition.budget, row.condition.settings, row.track.name)
        if not sides[0].get(key) or not sides[1].get(key):
            continue
        metric = row.track.ranked_by
        values = [_values(side[key], metric, row.track.seeds) for side in sides]
        means, trials, p_value = _compared(values[0], values[1], metric == PASS_RATE)
        unpublished = row.track.name != PLANS or own_table
        about = row.track.name, row.agent, dict(row.condition.budget), dict(row.condition.settings)
        found.append(RerunRow(*about, metric, *means, trials, p_value, unpublished))
    return [replace(row, p_value=min(1.0, row.p_value * len(found))) for row in found]


def _by_row(results: Iterable[EpisodeResult]) -> dict[tuple[str, str], list[EpisodeResult]]:
    found: dict[tuple[str, str], list[EpisodeResult]] = {}
    for result in results:
        key = result.agent, condition_key(result.budget, result.settings, track_of(result.env))
        found.setdefault(key, []).append(result)
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
    claimed: np.ndarray[Any, Any], again: np.ndarray[Any, Any], share: bool
) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Both means, the trials behind them, and the one-sided p-value of the difference."""
    means, trials, errors = [], [], []
    for values in (claimed, again):
        known = ~np.isnan(values)
        mean = float(np.nanmean(values)) if known.any() else 0.0
        count = independent_trials(np.where(known, values, 0.0), known.astype(float)) if share else float(known.sum())
        means.append(mean)
        trials.append(max(count, 1.0))
        errors.append(float(np.nanvar(values)) if known.any() else 0.0)
    if share:
        pooled = (means[0] * trials[0] + means[1] * trials[1]) / sum(trials)
        errors = [max(pooled * (1.0 - pooled), 1e-9)] * 2
    error = math.sqrt(max(sum(each / count for each, count in zip(errors, trials, strict=True)), 1e-18))
    p_value = 0.5 * math.erfc((means[0] - means[1]) / error / math.sqrt(2.0))
    rounded = [float(f"{each:.12g}") for each in (*means, *trials)]
    return (rounded[0], rounded[1]), (rounded[2], rounded[3]), p_value


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
            if each.agrees and each.unpublished:
                changed["verified"] = RERUN
            elif not each.agrees:
                changed["alarms"] = [*(row.get("alarms") or ()), f"run again, it falls: {each.said()}"]
        found.append(changed)
    return found
