"""Check that a run plays a frozen release of the benchmark: figures of different days compare where they are of one release.

A release is a YAML file in `releases/`: suites, their seed, and digests of every track's terms and world. What happens to
scripted calls is part of a world, so that a change of the rules shows as well. `tests/helpers/releases.py` writes the file of a
new one.
"""

import hashlib
import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from costgym.envs.base import base_env
from costgym.envs.sessions.base import SessionBase
from costgym.experiments.board.run_config import RunConfig, TrackConfig, world_of
from costgym.simulators.digests import recorded_text
from costgym.simulators.errors import ConfigError, check_known
from costgym.simulators.files import read_yaml
from costgym.simulators.sessions.episode import session_world
from costgym.simulators.world import World

FOLDER = Path(__file__).with_name("releases")
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
    world: int = 0  # version of the world in which its suites are played, where they have it
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
            frozen, played = tracks.get(track.name), freeze(track)
            if frozen is None:
                raise ConfigError("--release", f"{self.name} has no track {track.name} in {config.suite}")
            if played.terms != frozen.terms:
                raise ConfigError(
                    "--release", f"the track {track.name} is not played on the terms of {self.name}; give no option"
                )
            if played.world != frozen.world:
                raise ConfigError(
                    "--release",
                    f"the world of the track {track.name} is {played.world}, that of {self.name} is {frozen.world}; "
                    "install the version of costgym that the release names",
                )


def release_names() -> list[str]:
    """The releases that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_release(name: str) -> Release:
    """A release by name; raises UnknownName where there is none."""
    check_known("release", name, release_names())
    return Release.model_validate(read_yaml(FOLDER / f"{name}.yaml"))


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
            state.update(recorded_text(part).encode("utf-8", "backslashreplace"))
        for number in world.tasks.numbers(track.split)[:SCRIPTED_EPISODES]:
            state.update(_scripted(world, number).encode())
    digest = hashlib.blake2b(json.dumps(terms, sort_keys=True).encode(), digest_size=16).hexdigest()
    return FrozenTrack(terms=digest, world=state.hexdigest())


def _scripted(world: World, number: int) -> str:
    """Play every candidate of a task twice, the second time after the first has ended, as long as the limits allow."""
    episode = world.episode(number, seed=number)
    calls = [episode.call(slot.index) for _ in range(2) for slot in world.candidates(number) if not episode.over]
    return repr([(call.status.label, call.price, call.finished_s) for call in calls])
