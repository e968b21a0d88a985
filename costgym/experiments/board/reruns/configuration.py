"""Derive the configuration of a rerun: the submission's rows, with a seed and worlds that the secret determines.

A world is a setting that varies (`envs.base.WORLD`), so that a rerun in several worlds is one run like any other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from costgym.envs.base import WORLD, base_env
from costgym.envs.registration import class_of
from costgym.experiments.board.conditions import Condition, condition_key
from costgym.experiments.board.reruns.record import seed_of_text, world_seed_of_text
from costgym.experiments.board.run_config import RunConfig, TrackConfig
from costgym.experiments.board.submissions.manifest import Submission
from costgym.experiments.board.suites import ALL_VIEWS
from costgym.experiments.board.tracks import track_of
from costgym.experiments.play.results import EpisodeResult
from costgym.simulators.bounds import Count, Settings, option
from costgym.simulators.errors import ConfigError

WORLDS = 3  # secret worlds of a rerun, where worlds are generated
PLANS = "plans"  # the track whose samples ship with the package; other samples need a separate outcome table


def rerun_config(
    manifest: Submission, secret: str, episodes: int | None, outcomes: str | Path | None = None, worlds: int = 1
) -> RunConfig:
    """The submission's run on another seed, with the rows that were handed in, in other worlds of the same kind. Generated
    worlds are generated again from the secret, `worlds` of them: tools, reliabilities, tasks and facts all differ. Worlds of
    recorded data stay, but for a given outcome table of plans. No row has more `episodes` than its world has."""
    tracks = []
    for track in manifest.run.tracks:
        agents = tuple(dict.fromkeys(file.agent for file in manifest.files if file.track == track.name))
        if not agents:
            continue
        public = track = track.model_copy(update={"agents": agents})
        if outcomes is not None and track.name == PLANS:
            track = _on_table(track, outcomes)
        else:
            track = _elsewhere(track, world_seed_of_text(secret))
        if episodes is not None:
            track = _with_episodes(track, episodes)
        secret_world = track.digest != public.digest and track.name != PLANS
        tracks.append(_in_worlds(track, worlds) if secret_world and worlds > 1 else track)
    if not tracks:
        raise ConfigError("--submission", "nothing in it can be rerun")
    return manifest.run.model_copy(update={"tracks": tuple(tracks), "seed": seed_of_text(secret), "release": None})


def _in_worlds(track: TrackConfig, worlds: int) -> TrackConfig:
    """A track with every condition in several worlds, each time with whole tasks."""

    def inside(condition: Condition, world: int) -> Condition:
        episodes = -(-condition.episodes // track.seeds) * track.seeds
        return Condition(budget=condition.budget, settings={**condition.settings, WORLD: world}, episodes=episodes)

    varied = tuple(inside(condition, world) for condition in track.conditions for world in range(worlds))
    return track.model_copy(update={"conditions": varied})


def pooled(run: RunConfig, results: Iterable[EpisodeResult]) -> tuple[RunConfig, list[EpisodeResult]]:
    """A rerun with the worlds of every condition taken as one, whose episodes follow each other; and its episodes so."""
    tracks, before = [], dict[tuple[str, str], int]()
    for track in run.tracks:
        merged: dict[str, Condition] = {}
        for each in track.conditions:
            one = Condition(budget=each.budget, settings=without_world(each.settings), episodes=each.episodes)
            before[track.name, each.key] = start = merged[one.key].episodes if one.key in merged else 0
            merged[one.key] = one.model_copy(update={"episodes": start + each.episodes})
        tracks.append(track.model_copy(update={"conditions": tuple(merged.values())}))
    found = []
    for result in results:
        first = before[track_of(result.env, result.settings), condition_key(result.budget, result.settings)]
        found.append(replace(result, settings=without_world(result.settings), episode=first + result.episode))
    return run.model_copy(update={"tracks": tuple(tracks)}), found


def without_world(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings but for the number of the world."""
    return {name: value for name, value in settings.items() if name != WORLD}


def unpublished_tracks(run: RunConfig, rerun: RunConfig) -> frozenset[str]:
    """The tracks of a rerun whose worlds are not those that the submission was played in."""
    return frozenset(track.name for track in rerun.tracks if track.digest != run.track(track.name).digest)


def _elsewhere(track: TrackConfig, seed: int) -> TrackConfig:
    """A track in another world of the same kind; the track itself where its world is recorded."""
    settings = {name: value for own in track.settings.values() for name, value in own.items()}
    world = track.world.another(settings, seed)
    if world is None:
        return track
    return track.model_copy(update={"scenario": dict(world.document), "digest": world.digest})


def _on_table(track: TrackConfig, outcomes: str | Path) -> TrackConfig:
    """A track of plans on another outcome table."""
    from costgym.simulators.opencatp.scoring.table import OutcomeTable

    scenario = {**track.scenario, "outcomes": OutcomeTable.load(outcomes).digest}
    settings = {**track.settings, ALL_VIEWS: {**track.settings.get(ALL_VIEWS, {}), "outcomes": str(outcomes)}}
    digest = class_of(track.env).world_class(scenario).digest
    return track.model_copy(update={"scenario": scenario, "settings": settings, "digest": digest})


def _with_episodes(track: TrackConfig, episodes: int) -> TrackConfig:
    """A track with so many episodes of every row; of a task no more than its seeds, of an instance no more than one."""

    def most(condition: Condition) -> int:
        world = base_env(track.make_env(track.env, condition))
        return world.instances or len(world.numbers) * track.seeds

    conditions = tuple(each.model_copy(update={"episodes": min(episodes, most(each))}) for each in track.conditions)
    return track.model_copy(update={"conditions": conditions})


class QueueOptions(Settings):
    """The options of `costgym submit rerun --queue`."""

    queue: Annotated[Path | None, option("Judge every waiting entry of a folder instead; needs --board.", "FOLDER")] = None
    board: Annotated[Path | None, option("With --queue: the leaderboard that accepted entries are added to.", "DIR")] = None
    verdicts: Annotated[
        Path | None, option("With --queue: folder for verdicts, outside the queue; by default FOLDER.verdicts.", "DIR")
    ] = None
    site: Annotated[Path | None, option("With --queue: build the leaderboard's site here at the end.", "DIR")] = None
    most: Annotated[Count, option("With --queue: maximum number of entries to judge; others wait for the next run.")] = 100
    worlds: Annotated[Count, option("Number of secret worlds for each row, if its worlds are generated.")] = WORLDS
    minutes: Annotated[Count, option("With --queue: minutes after which an entry is refused.")] = 120
