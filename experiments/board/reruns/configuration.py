"""Derive the configuration of a rerun: the submission's rows, with a seed and worlds that the secret determines."""

from __future__ import annotations

from pathlib import Path

from ....envs.base import base_env
from ....envs.registration import class_of
from ....simulators.errors import ConfigError
from ..conditions import Condition
from ..run_config import RunConfig, TrackConfig
from ..submissions.manifest import Submission
from ..suites import ALL_VIEWS
from .record import seed_of_text, world_seed_of_text

PLANS = "plans"
"""The track whose samples ship with the package; other samples need a separate outcome table."""


def rerun_config(manifest: Submission, secret: str, episodes: int | None, outcomes: str | Path | None = None) -> RunConfig:
    """The submission's run on another seed, with the rows that were handed in, in other worlds of the same kind.

    Generated worlds are generated again from the secret: tools, reliabilities, tasks and facts all differ. Worlds of recorded
    data stay unchanged, and so does their digest.

    Args:
        manifest: of the submission.
        secret: the secret that determines seeds and worlds.
        episodes: number of episodes of every row, at most as many as its world has; None for as many as were submitted.
        outcomes: an outcome table that plans are run on, instead of the submission's.
    """
    tracks = []
    for track in manifest.run.tracks:
        agents = tuple(dict.fromkeys(file.agent for file in manifest.files if file.track == track.name))
        if not agents:
            continue
        track = track.model_copy(update={"agents": agents})
        if outcomes is not None and track.name == PLANS:
            track = _on_table(track, outcomes)
        else:
            track = _elsewhere(track, world_seed_of_text(secret))
        if episodes is not None:
            track = _with_episodes(track, episodes)
        tracks.append(track)
    if not tracks:
        raise ConfigError("--submission", "nothing in it can be rerun")
    return manifest.run.model_copy(update={"tracks": tuple(tracks), "seed": seed_of_text(secret), "release": None})


def unpublished_tracks(run: RunConfig, rerun: RunConfig) -> frozenset[str]:
    """The tracks of a rerun whose worlds are not those that the submission was played in.

    Args:
        run: that the submission was played in.
        rerun: its rerun.
    """
    return frozenset(track.name for track in rerun.tracks if track.digest != run.track(track.name).digest)


def _elsewhere(track: TrackConfig, seed: int) -> TrackConfig:
    """A track in another world of the same kind; the track itself where its world is recorded."""
    kind = class_of(track.env)
    settings = {name: value for own in track.settings.values() for name, value in own.items()}
    scenario = kind.another_world(track.scenario, settings, seed)
    if scenario is None:
        return track
    return track.model_copy(update={"scenario": scenario, "digest": kind.world_digest(scenario)})


def _on_table(track: TrackConfig, outcomes: str | Path) -> TrackConfig:
    """A track of plans on another outcome table."""
    from ....simulators.opencatp.scoring.table import OutcomeTable

    scenario = {**track.scenario, "outcomes": OutcomeTable.load(outcomes).digest}
    settings = {**track.settings, ALL_VIEWS: {**track.settings.get(ALL_VIEWS, {}), "outcomes": str(outcomes)}}
    digest = class_of(track.env).world_digest(scenario)
    return track.model_copy(update={"scenario": scenario, "settings": settings, "digest": digest})


def _with_episodes(track: TrackConfig, episodes: int) -> TrackConfig:
    """A track with so many episodes of every row; of a task no more than its seeds, of an instance no more than one."""

    def most(condition: Condition) -> int:
        world = base_env(track.make_env(track.env, condition))
        return world.instances or len(world.numbers) * track.seeds

    conditions = tuple(each.model_copy(update={"episodes": min(episodes, most(each))}) for each in track.conditions)
    return track.model_copy(update={"conditions": conditions})
