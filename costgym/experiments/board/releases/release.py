"""A release names suites, seeds and worlds once and for all: a run that claims it must play exactly those.

Each is a JSON file in this folder, with a digest of the terms of every track (conditions, split, seeds, settings) and one of
its world: tasks, tools, and what happens to scripted calls, so that a change of the rules shows as well.

`tests/helpers/releases.py` writes the file of a new one.
"""

import hashlib
import json
from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from costgym.envs.base import base_env
from costgym.envs.sessions.base import SessionBase
from costgym.experiments.board.run_config import RunConfig, TrackConfig
from costgym.experiments.board.submissions.replay import world_of
from costgym.simulators.errors import ConfigError, check_known
from costgym.simulators.sessions.episode import session_world
from costgym.simulators.world import World

FOLDER = Path(str(files(__package__ or "costgym.experiments.board.releases")))
SCRIPTED_EPISODES = 24


class FrozenTrack(BaseModel):
    """Digests of what is played in a track, and of its world."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    terms: str
    world: str


class Release(BaseModel):
    """A release of the benchmark: the seed, grading and split of every run, and the tracks of its suites."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str  # such as `costgym-2026.11`
    seed: int
    grading: str
    split: str
    suites: dict[str, dict[str, FrozenTrack]]  # the tracks of each suite, by name

    def check(self, config: RunConfig) -> None:
        """Raise ConfigError, with the first difference, for a run of some tracks that is not played as this release says."""
        tracks = self.suites.get(config.suite)
        if tracks is None:
            raise ConfigError("--release", f"{self.name} has no suite {config.suite}; it has {', '.join(self.suites)}")
        for name in ("seed", "grading"):
            if getattr(config, name) != getattr(self, name):
                raise ConfigError("--release", f"{self.name} is played with {name} {getattr(self, name)}")
        for track in config.tracks:
            wanted, found = tracks.get(track.name), freeze(track)
            if wanted is None:
                raise ConfigError("--release", f"{self.name} has no track {track.name} in {config.suite}")
            if found.terms != wanted.terms:
                raise ConfigError(
                    "--release", f"the track {track.name} is not played on the terms of {self.name}; give no option"
                )
            if found.world != wanted.world:
                raise ConfigError(
                    "--release",
                    f"the world of the track {track.name} is {found.world}, that of {self.name} is {wanted.world}; "
                    "install the version of costgym that the release names",
                )


def release_names() -> list[str]:
    """The releases that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load_release(name: str) -> Release:
    """A release by name; raises UnknownName where there is none."""
    check_known("release", name, release_names())
    return Release.model_validate_json((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def freeze(track: TrackConfig) -> FrozenTrack:
    """The digests of a track and of its world."""
    conditions = [condition.model_dump(mode="json") for condition in track.conditions]
    terms = [track.name, track.env, track.split, track.seeds, track.ranked_by, track.portable_settings, conditions]
    state = hashlib.blake2b(json.dumps(world_of(track.scenario), sort_keys=True).encode(), digest_size=16)
    env = base_env(track.make_env(track.env, track.conditions[0]))
    world = env.world
    if isinstance(env, SessionBase):
        for number in env.numbers[:SCRIPTED_EPISODES]:
            state.update(_scripted(session_world(env.rules, number), number).encode())
    elif world is not None:
        for part in (*(world.tasks[number] for number in world.tasks.numbers(track.split)), *world.catalog):
            state.update(repr(part).encode("utf-8", "backslashreplace"))
        for number in world.tasks.numbers(track.split)[:SCRIPTED_EPISODES]:
            state.update(_scripted(world, number).encode())
    digest = hashlib.blake2b(json.dumps(terms, sort_keys=True).encode(), digest_size=16).hexdigest()
    return FrozenTrack(terms=digest, world=state.hexdigest())


def _scripted(world: World, number: int) -> str:
    """Play every candidate of a task twice, the second time after the first has ended, as long as the limits allow."""
    episode = world.episode(number, seed=number)
    calls = [episode.call(slot.index) for _ in range(2) for slot in world.candidates(number) if not episode.over]
    return repr([(call.status.label, call.price, call.finished_s) for call in calls])
