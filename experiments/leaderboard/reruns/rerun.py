"""Rerun a submission: its agents play again, on seeds that nobody could know when they were handed in.

The maintainer of a leaderboard draws a secret, publishes its hash, and publishes the secret itself after the rerun: so
everybody can check that the seeds were not chosen afterwards. An agent that learnt the public seeds by heart falls.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....agents.custom import is_custom
from ....simulators.errors import ConfigError, DataError
from ...files import sole_writer, write_atomically
from ...rollout import play_many
from ...trajectories.format import Header
from ..board import check_owner, experience_text, publish, summarise_run
from ..metric_columns import figure
from ..run_config import RowConfig, RunConfig, entry_of
from ..run_log import EpisodeOutput, RunLog
from ..submissions.manifest import Submission, read_manifest
from .process_agent import ProcessAgent

LEVEL = 0.01
"""A row falls where a difference so large would come up by chance less often."""
NOT_RERUN = frozenset({"plans"})
"""Tracks whose seats hold tables that are not sent over a pipe."""


def new_secret(path: Path) -> str:
    """Draw a secret into a file that must not exist; returns its commitment, to be published at once."""
    if path.exists():
        raise ConfigError("--new-secret", f"{path} exists already; a secret is used once")
    write_atomically(path, secrets.token_hex(32) + "\n")
    return commitment_of(path)


def commitment_of(path: Path) -> str:
    """The hash that commits to a secret."""
    return hashlib.sha256(_secret(path).encode()).hexdigest()


def seed_of(path: Path) -> int:
    """The seed that follows from a secret."""
    return int.from_bytes(hashlib.sha256(f"costgym rerun {_secret(path)}".encode()).digest()[:8], "big") >> 4


def _secret(path: Path) -> str:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(path, f"cannot be read as a secret ({error})") from error
    if len(text) < 32:
        raise DataError(path, f"expected a secret of at least 32 characters, got {len(text)}")
    return text


@dataclass(frozen=True, slots=True)
class RerunRow:
    """A row of a submission beside its rerun.

    Attributes:
        track, agent, budget: which.
        claimed, rerun: pass rates within the budget.
        p_value: of a difference at least so large in the claim's favour, if both were the same agent's by chance.
    """

    track: str
    agent: str
    budget: dict[str, float]
    claimed: float
    rerun: float
    p_value: float

    @property
    def agrees(self) -> bool:
        return self.p_value >= LEVEL


def rerun(
    submission: str | Path,
    secret: Path,
    out: str | Path,
    commitment: str | None = None,
    code: Path | None = None,
    episodes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[RerunRow]:
    """Run the agents of a submission again, each in a process of its own, and compare their pass rates with what was claimed.

    Args:
        submission: its folder.
        secret: file with the secret that the seed follows from.
        out: folder of the rerun, a leaderboard run that `costgym verify` checks like any other.
        commitment: the hash that was published before; the secret must fit it.
        code: folder in which agents of one's own (``FILE.py:CLASS``) are looked for.
        episodes: of every row; by default as many as were handed in.
        progress: called with the numbers of finished and of all episodes.

    Raises:
        ConfigError: the secret does not fit the commitment, nothing can be rerun, or `out` belongs to another run.
        DataError: the manifest cannot be read, or an agent's process fails.
    """
    if commitment is not None and commitment_of(secret) != commitment.strip().lower():
        raise ConfigError("--commitment", "the secret does not fit the hash that was published")
    manifest, problems = read_manifest(Path(submission))
    if manifest is None or problems:
        raise DataError(submission, problems[0])
    config = _config(manifest, seed_of(secret), episodes)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    check_owner(config.to_json(), folder)
    with sole_writer(folder):
        write_atomically(folder / "run.json", config.to_json())
        experience = experience_text(config)
        with RunLog(folder, config) as log:
            for row in config.rows():
                _play(config, row, log, experience, code, progress)
        document = publish(folder, summarise_run(config, log.finish(), experience))
    claims = {_key(row): row for row in manifest.rows}
    found = []
    for row in document["rows"]:
        claim = claims[_key(row)]
        sides = [(figure(each, "pass_rate_under_budget") or 0.0, _trials(each)) for each in (claim, row)]
        p_value = _p_value(*sides[0], *sides[1])
        found.append(RerunRow(row["track"], row["agent"], dict(row["budget"]), sides[0][0], sides[1][0], p_value))
    return found


def _config(manifest: Submission, seed: int, episodes: int | None) -> RunConfig:
    """The submission's run on another seed, with the rows that were handed in."""
    tracks = []
    for track in manifest.run.tracks:
        agents = tuple(dict.fromkeys(file.agent for file in manifest.files if file.track == track.name))
        if not agents or track.name in NOT_RERUN:
            continue
        conditions = tuple(
            each if episodes is None else each.model_copy(update={"episodes": min(episodes, each.episodes)})
            for each in track.conditions
        )
        tracks.append(track.model_copy(update={"agents": agents, "conditions": conditions}))
    if not tracks:
        raise ConfigError("--submission", f"nothing in it can be rerun; tracks that cannot: {', '.join(sorted(NOT_RERUN))}")
    return manifest.run.model_copy(update={"tracks": tuple(tracks), "seed": seed})


def _play(
    config: RunConfig,
    row: RowConfig,
    log: RunLog,
    experience: str | None,
    code: Path | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    track = row.track
    left = [index for index in range(row.condition.episodes) if (*row.key, index) not in log.found]
    if not left:
        return
    env_id = track.env if is_custom(row.agent) else entry_of(row.agent, track.name).env_id
    env = track.make_env(env_id, row.condition)
    header = Header.of(env, env_id)
    with ProcessAgent(row.agent, env_id, code, experience, config.search, config.btp) as agent:
        agent.name = row.agent
        for result, trajectory in play_many(env, agent, env_id, left, config.seed, row.condition.settings, track.seeds):
            line = None if trajectory is None else trajectory.sealed_json(header)
            log.add(EpisodeOutput(result, header.to_json(), line))
            if progress is not None:
                progress(len(log.found), config.episodes)


def _key(row: dict[str, Any]) -> tuple[str, str, str]:
    return str(row.get("track")), str(row.get("agent")), repr(sorted((row.get("budget") or {}).items()))


def _trials(row: dict[str, Any]) -> float:
    """How many independent trials the width of a row's interval stands for, at most its episodes."""
    low, high = (row.get("ci95") or {}).get("pass_rate_under_budget", (0.0, 1.0))
    share, half = figure(row, "pass_rate_under_budget") or 0.0, (high - low) / 2.0
    spread = max(share * (1.0 - share), 0.25 / max(1, int(row["episodes"])))
    return min(float(row["episodes"]), max(2.0, 3.84 * spread / half**2)) if half > 0 else float(row["episodes"])


def _p_value(claimed: float, claimed_trials: float, found: float, found_trials: float) -> float:
    """One-sided: how likely so large a fall is if both shares are of one agent."""
    pooled = (claimed * claimed_trials + found * found_trials) / (claimed_trials + found_trials)
    error = math.sqrt(max(pooled * (1.0 - pooled), 1e-9) * (1.0 / claimed_trials + 1.0 / found_trials))
    return 0.5 * math.erfc((claimed - found) / error / math.sqrt(2.0))
