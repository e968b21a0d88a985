"""An epoch: its public terms, its secret, and the tasks, worlds and seeds that follow from the secret.

`epoch.json` is public before the first entry and holds the hash of the secret, `epoch.secret` stays with the judge until the
end. All entries and references are played on the same secret tasks, worlds and seeds, so their rows compare in pairs.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from costgym.envs.base import base_env
from costgym.envs.world_spec import WORLD
from costgym.experiments.board.conditions import Condition, condition_key
from costgym.experiments.board.epochs.identities import Identity, public_key, read_identities, same_name
from costgym.experiments.board.epochs.options import EpochOptions
from costgym.experiments.board.run_config import RunConfig, TrackConfig, entry_of, make_run_config
from costgym.experiments.board.run_options import RunOptions
from costgym.experiments.board.tracks import TRACKS, track_of
from costgym.experiments.play.results import EpisodeResult
from costgym.simulators.errors import ConfigError, CostGymError, DataError, check_known
from costgym.simulators.files import decode_json, json_text, make_folder, read_text, write_atomically

PUBLIC, SECRET, RECORDS = "epoch.json", "epoch.secret", "records"
MAX_BYTES = 8 * 2**20  # of an `epoch.json`
REFERENCES: Mapping[str, tuple[str, ...]] = {
    "numbers": ("cheapest", "greedy", "oracle-informed"),
    "writes": ("retry", "check-then-retry"),
    "plans": ("few-shot", "greedy", "oracle-informed"),
    "decisions": ("deer-rule", "deer"),
    "sessions": ("bayes-index", "informed-paced"),
    "one-world": ("react", "react+deer", "catp-plan"),
    "text": ("react", "plan-act", "dfsdt+ecoact"),
}
"""Agents of ours that every epoch plays beside its entries; none needs an extra, a server or past uses."""


class Epoch(BaseModel):
    """The content of `epoch.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal["costgym.epoch/1"] = "costgym.epoch/1"
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+-]{0,79}$")
    begin: date
    end: date  # the secret is published after this day
    tasks: int = Field(ge=1)  # of every row in every world, at most; a world may have fewer
    worlds: int = Field(ge=1, le=100)  # secret worlds that every row is played in, where worlds are generated
    secret_sha256: str = Field(pattern="^[0-9a-f]{64}$")
    run: RunConfig  # what entrants play in public, with the references as agents and the number of episodes of a secret world
    judge: str = ""  # public key that verdicts are signed with; "" where they are not signed
    identities: tuple[Identity, ...] = ()  # who may enter; without any, whoever hands in is known by name alone

    def to_json(self) -> str:
        """The content of the file."""
        return json_text(self.model_dump(mode="json"))

    @property
    def terms(self) -> str:
        """Hash of all but the identities, which may grow; the chain of verdicts begins with it."""
        document = self.model_dump(mode="json", exclude={"identities"})
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    @property
    def references(self) -> dict[str, tuple[str, ...]]:
        """The references by their track."""
        return {track.name: track.agents for track in self.run.tracks}

    def secret_run(self, secret: str, agents: Mapping[str, Sequence[str]]) -> RunConfig:
        """The configuration that some agents play, by their tracks; all else is the epoch's own."""
        tracks_of_agents = (track.model_copy(update={"agents": tuple(agents.get(track.name, ()))}) for track in self.run.tracks)
        tracks = tuple(_secret_track(track, secret, self.worlds) for track in tracks_of_agents if track.agents)
        return self.run.model_copy(update={"tracks": tracks, "seed": seed_of(secret)})


def create(folder: Path, options: RunOptions, keys: Path | None = None, terms: EpochOptions | None = None) -> Epoch:
    """Draw the secret of an epoch into a new folder; `epoch.json` there is to be published.

    Args:
        options: what is played, as for a leaderboard: suite, budgets, model. Agents that it names are the references.
        keys: file of who may enter, as `identities.read_identities` reads it.
        terms: all else.

    Raises:
        ConfigError: the folder exists, the days are out of order, or no track is left.
        UnknownName: the suite has no such track.
    """
    terms = terms or EpochOptions()
    tracks, worlds = terms.tracks, terms.worlds
    begin = terms.begin or today()
    end = terms.end or begin
    if end < begin:
        raise ConfigError("--end", f"expected a day not before {begin}, got {end}")
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError("--out", f"{folder} exists already; a secret is used for one epoch")
    public = make_run_config(options)
    for name in tracks or ():
        check_known("track of the suite", name, [track.name for track in public.tracks])
    secret, chosen = secrets.token_hex(32), []
    for track in public.tracks:
        if tracks is not None and track.name not in tracks:
            continue
        if _secret_track(track, secret, worlds).digest == track.digest:
            if tracks is not None:
                raise ConfigError("--tracks", f"{track.name} has no worlds but the public ones; choose other --tracks")
            continue
        agents = track.agents if options.agents is not None else tuple(_references(track.name))
        chosen.append(_with_episodes(track.model_copy(update={"agents": agents}), terms.tasks))
    if not chosen:
        raise ConfigError("--suite", f"{options.suite} has no track with other worlds than the public ones")
    epoch = _checked(
        {
            "name": terms.name,
            "begin": begin,
            "end": end,
            "tasks": terms.tasks,
            "worlds": worlds,
            "secret_sha256": hashlib.sha256(secret.encode()).hexdigest(),
            "run": public.model_copy(update={"tracks": tuple(chosen), "weights": {}}),
            "judge": "" if terms.judge is None else public_key(terms.judge),
            "identities": () if keys is None else read_identities(keys),
        }
    )
    make_folder(folder)
    folder.chmod(0o700)
    with os.fdopen(os.open(folder / SECRET, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as store:
        store.write(f"{secret}\n")
    write_atomically(folder / PUBLIC, epoch.to_json())
    return epoch


def register(folder: Path, keys: Path) -> Epoch:
    """Let more people enter an epoch. Raises ConfigError where one has a name or a key that is registered already."""
    epoch = read_epoch(folder)
    grown = _checked({**dict(epoch), "identities": (*epoch.identities, *read_identities(keys))})
    write_atomically(folder / PUBLIC, grown.to_json())
    return grown


def _checked(fields: Mapping[str, Any]) -> Epoch:
    try:
        epoch = Epoch(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"--{first['loc'][0]}", first["msg"]) from None
    taken: dict[str, Identity] = {}
    for identity in epoch.identities:
        for text in (same_name(identity.name), identity.key):
            if text in taken:
                raise ConfigError("--keys", f"{identity.name!r} and {taken[text].name!r} have the same name or key")
            taken[text] = identity
    return epoch


def read_epoch(folder: Path) -> Epoch:
    """Read the terms of an epoch from its folder, or from the board of its verdicts."""
    path = folder / PUBLIC
    if not path.is_file():
        raise DataError(path, "there is no such file; expected the folder of `costgym submit epoch`")
    try:
        return Epoch.model_validate(decode_json(read_text(path, MAX_BYTES, follow=False), once=True))
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(path, f"is not an epoch: {first['msg']}", ".".join(map(str, first["loc"]))) from None
    except (ValueError, RecursionError) as error:
        raise DataError(path, f"is not an epoch: {error}") from error


def read_secret(folder: Path, epoch: Epoch) -> str:
    """Read the secret of an epoch; raises DataError where it is not the one whose hash was published."""
    path = folder / SECRET
    if not path.is_file():
        raise DataError(path, "there is no such file; expected the folder that the judge keeps")
    secret = read_text(path, 1000, follow=False).strip()
    if hashlib.sha256(secret.encode()).hexdigest() != epoch.secret_sha256:
        raise DataError(path, f"is not the secret whose hash {PUBLIC} has published")
    return secret


def today() -> date:
    """The day in UTC."""
    return datetime.now(UTC).date()


def seed_of(secret: str) -> int:
    """Derive the seed of the episodes, 60 bits."""
    return _bits("costgym epoch", secret)


def world_seed_of(secret: str) -> int:
    """Derive the seed of the worlds, 60 bits; it reveals nothing about the seed of the episodes."""
    return _bits("costgym epoch, world", secret)


def _bits(purpose: str, secret: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{purpose} {secret}".encode()).digest()[:8], "big") >> 4


def _references(track: str) -> Iterator[str]:
    for name in REFERENCES[track]:
        with suppress(CostGymError):
            if entry_of(name, track).env_id in TRACKS[track].views:
                yield name


# -- secret worlds ---------------------------------------------------------------------------------------------------------


def _secret_track(track: TrackConfig, secret: str, worlds: int) -> TrackConfig:
    """A track in worlds of the same kind that nobody knows; the track itself where there are none."""
    settings = {name: value for chosen in track.settings.values() for name, value in chosen.items()}
    world = track.world.another(settings, world_seed_of(secret))
    if world is None:
        return track
    varied = tuple(
        condition.model_copy(update={"settings": {**condition.settings, WORLD: number}})
        for condition in track.conditions
        for number in range(worlds)
    )
    conditions = varied if worlds > 1 else track.conditions
    return track.model_copy(update={"scenario": dict(world.document), "digest": world.digest, "conditions": conditions})


def _with_episodes(track: TrackConfig, tasks: int) -> TrackConfig:
    """A track with whole tasks, so many or as many as a world has, in every row."""

    def counted(condition: Condition) -> Condition:
        world = base_env(track.make_env(track.env, condition))
        most = world.instances or len(world.numbers) * track.seeds
        return condition.model_copy(update={"episodes": min(tasks * track.seeds, most)})

    return track.model_copy(update={"conditions": tuple(map(counted, track.conditions))})


def pooled(run: RunConfig, results: Iterable[EpisodeResult]) -> tuple[RunConfig, list[EpisodeResult]]:
    """A secret run with the worlds of every condition taken as one, whose episodes follow each other; and its episodes so."""
    tracks, before = [], dict[tuple[str, str], int]()
    for track in run.tracks:
        merged: dict[str, Condition] = {}
        for condition in track.conditions:
            one = condition.model_copy(update={"settings": without_world(condition.settings)})
            before[track.name, condition.key] = start = merged[one.key].episodes if one.key in merged else 0
            merged[one.key] = one.model_copy(update={"episodes": start + condition.episodes})
        tracks.append(track.model_copy(update={"conditions": tuple(merged.values())}))
    episodes = []
    for result in results:
        first = before[track_of(result.env, result.settings), condition_key(result.budget, result.settings)]
        episodes.append(replace(result, settings=without_world(result.settings), episode=first + result.episode))
    return run.model_copy(update={"tracks": tuple(tracks)}), episodes


def without_world(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings but for the number of the world."""
    return {name: value for name, value in settings.items() if name != WORLD}
