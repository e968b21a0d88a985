"""Export trajectories as a Minari dataset.

The environment's spec contains the whole scenario, so `minari.load_dataset(id).recover_environment()` restores the episodes'
environment. The episode buffers are built here rather than by Minari's data collector, which needs JAX and checks every text
character by character.

Minari's `infos` have one entry more than `rewards`, since they begin with the reset's, and the environment's own are kept so:
`infos["cost_price"][t + 1]` is what `actions[t]` cost. `costs`, `costs_price` and so on are aligned with the rewards, as in
DSRL, and `log_probabilities` with the actions; their last entry is 0. See docs/reference/datasets.md.
"""

import json
import shutil
import string
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import WrapperSpec

from costgym.agents.base import Agent
from costgym.agents.sessions.soft import SoftAgent
from costgym.envs.wrappers import DictLayout, FlattenObservation
from costgym.experiments.play.execution.ray_cluster import variables
from costgym.experiments.play.trajectories.format import Header
from costgym.experiments.play.trajectories.record import played as play_again
from costgym.experiments.play.trajectories.replay import ReplayedEpisode, Step, actions_replayed, readable, replayed
from costgym.simulators.errors import ConfigError, require
from costgym.simulators.files import finished_folder, write_atomically
from costgym.simulators.ledger import RESOURCES

BATCH_STEPS = 5_000  # number of steps held in memory before they are written
ALIGNED = {"costs": "cost", **{f"costs_{name}": f"cost_{name}" for name in RESOURCES}}
"""Infos that are aligned with the rewards, and the entries of the environment's `info` that they hold."""
LOG_PROBABILITIES = "log_probabilities"


@dataclass(frozen=True, slots=True)
class Contents:
    """The parts of a Minari dataset besides the recorded episodes."""

    flat: bool = False  # whether observations are vectors, as `FlattenObservation` makes them, in the recovered environment too
    infos: Collection[str] | None = None  # names of the infos that are kept; None keeps all
    behaviours: Mapping[str, Agent] = field(default_factory=dict)  # policies by agent; they give log-probabilities
    metadata: Mapping[str, Any] = field(default_factory=dict)  # further entries of the dataset's metadata


def to_minari(
    path: str | Path,
    dataset_id: str,
    root: str | Path | None = None,
    data: str | None = None,
    progress: Callable[[int], None] | None = None,
    contents: Contents | None = None,
) -> Path:
    """Export trajectories as a Minari dataset.

    Each episode stores its seed and `options={"task": number}`, with which the recovered environment can be reset to replay it.
    Texts are `Text` spaces over the characters that occur. Infos contain numbers, strings and arrays; other values are stored
    as JSON text. Of episodes on the train tasks, `recover_environment(eval_env=True)` plays the test tasks.

    Args:
        path: a trajectory file, or a folder of trajectory files with the same scenario and settings.
        dataset_id: a Minari dataset id: `name-v0`, or with folders `costgym/marketplace/react-v0`.
        root: Minari's folder of datasets; None for Minari's default.
        contents: what the dataset holds besides the episodes.

    Raises:
        ConfigError: the id is not a Minari dataset id, the dataset exists, or the files have several scenarios or settings.
        DataError: the trajectories cannot be read or do not replay.
    """
    minari = require("minari", "data")
    from minari.dataset.minari_dataset import parse_dataset_id

    try:
        namespace = parse_dataset_id(dataset_id)[0]
    except (ValueError, TypeError):
        raise ConfigError("--out", f"expected a Minari id such as costgym/react-v0, got {dataset_id!r}") from None
    with datasets_in(root):
        target = Path(minari.storage.get_dataset_path(dataset_id))
        with finished_folder(target) as draft:
            with datasets_in(draft):
                _write(minari, path, dataset_id, data, progress, contents or Contents())
                written = Path(minari.storage.get_dataset_path(dataset_id))
            # the dataset's files move up into the draft, without the folders in between
            inner = draft.with_name(draft.name + ".in")
            written.rename(inner)
            shutil.rmtree(draft)
            inner.rename(draft)
        if namespace is not None and namespace not in minari.namespace.list_local_namespaces():
            minari.namespace.create_namespace(namespace)
    return target


def _write(
    minari: Any, path: str | Path, dataset_id: str, data: str | None, progress: Callable[[int], None] | None, contents: Contents
) -> None:
    episodes = replayed(path, data)
    first = next(episodes, None)
    if first is None:
        raise ConfigError("--format", f"{path} contains no episode")
    dataset = _create(minari, dataset_id, first, data, contents)  # its length stays that of its creation, 0
    characters = {"observation": set(string.printable), "action": set(string.printable)}
    buffers: list[Any] = []
    agents: set[str] = set()
    held = 0
    for count, played in enumerate(chain((first,), episodes), 1):
        if played.header.seal != first.header.seal:
            raise ConfigError("--format", "a Minari dataset has one scenario and one budget; these files have several")
        agents.add(played.recorded.agent)
        buffers.append(_buffer(minari, played, characters, contents))
        held += len(played.steps)
        if held >= BATCH_STEPS:
            _append(dataset, buffers)
            buffers, held = [], 0
        if progress is not None:
            progress(count)
    if buffers:
        _append(dataset, buffers)
    folder = Path(dataset.storage.data_path)
    metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    for kind, space in (("observation", played.env.observation_space), ("action", played.env.action_space)):
        if isinstance(space, gym.spaces.Text):
            metadata[f"{kind}_space"] = minari.serialization.serialize_space(_plain(space, characters[kind]))
    metadata["algorithm_name"] = ", ".join(sorted(agents))
    metadata["dataset_size"] = round(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6, 1)
    write_atomically(folder / "metadata.json", json.dumps({**metadata, **contents.metadata}))


def _create(minari: Any, dataset_id: str, played: ReplayedEpisode, data: str | None, contents: Contents) -> Any:
    header, env = played.header, played.env
    observations = DictLayout(env.observation_space).space if contents.flat else env.observation_space
    spec = recoverable_spec(header, data, contents.flat)
    tested = replace(header, settings={**header.settings, "split": "test"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # warns about missing authors and permalink
        dataset = minari.create_dataset_from_buffers(
            dataset_id,
            [],
            env=spec,
            eval_env=recoverable_spec(tested, data, contents.flat) if "split" in header.settings else spec,
            observation_space=_plain(observations, set(string.printable)),
            action_space=_plain(env.action_space, set(string.printable)),
            algorithm_name=played.recorded.agent,
            description=f"Episodes of {header.env} in the scenario {header.scenario.get('name')} (digest {header.digest}).",
            requirements=[f"costgym=={header.version}"],
            data_format="hdf5",
            jpeg_encoding=False,
        )
    # summing the sizes of all files after every episode would take time quadratic in the number of episodes
    dataset.storage.get_size = lambda: 0.0
    return dataset


def _append(dataset: Any, buffers: Sequence[Any]) -> None:
    """Append episodes to Minari's HDF5 file. Minari makes every array resizable, which takes 2 kB each and most of the time."""
    h5py = require("h5py", "data")
    storage = dataset.storage
    before = int(storage.total_episodes)
    untimed = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    untimed.set_obj_track_times(False)  # the same episodes make the same bytes
    with h5py.File(Path(storage.data_path) / "main_data.hdf5", "a", libver="latest") as file:
        for number, episode in enumerate(buffers, before):
            group = file.create_group(f"episode_{number}")
            options = {f"options/{name}": value for name, value in episode.options.items()}
            group.attrs.update({"id": number, "seed": episode.seed, "total_steps": len(episode.rewards), **options})
            columns = {"observations": episode.observations, "actions": episode.actions, "infos": episode.infos}
            columns |= {name: getattr(episode, name) for name in ("rewards", "terminations", "truncations")}
            _store(h5py, untimed, group, columns)
    steps = sum(len(episode.rewards) for episode in buffers)
    storage.update_metadata({"total_steps": int(storage.total_steps) + steps, "total_episodes": before + len(buffers)})


def _store(h5py: Any, settings: Any, group: Any, columns: Mapping[str, Any]) -> None:
    """Store columns in a group; arrays through HDF5's own calls, which take a fifth of the time of `create_dataset`."""
    for name, values in columns.items():
        if isinstance(values, dict):
            _store(h5py, settings, group.create_group(name), values)
        elif len(values) > 0 and isinstance(values[0], str):
            group.create_dataset(name, data=values, dtype=h5py.string_dtype("utf-8"))
        else:
            array = np.ascontiguousarray(values)
            kind, space = h5py.h5t.py_create(array.dtype, logical=True), h5py.h5s.create_simple(array.shape)
            h5py.h5d.create(group.id, name.encode(), kind, space, settings).write(h5py.h5s.ALL, h5py.h5s.ALL, array)


def recoverable_spec(header: Header, data: str | None = None, flat: bool = False) -> Any:
    """Return the environment's spec with every argument as JSON, so that it depends on no file but this package."""
    spec = copy(gym.spec(header.env))
    spec.kwargs = header.arguments(data)
    spec.disable_env_checker = True
    if flat:
        wrapper = f"{FlattenObservation.__module__}:{FlattenObservation.__name__}"
        spec.additional_wrappers = (WrapperSpec(FlattenObservation.__name__, wrapper, {}),)
    return spec


def _plain(space: gym.Space[Any], characters: set[str]) -> gym.Space[Any]:
    if isinstance(space, gym.spaces.Text):
        return gym.spaces.Text(space.max_length, min_length=0, charset="".join(sorted(characters)))
    return space


def _buffer(minari: Any, played: ReplayedEpisode, characters: dict[str, set[str]], contents: Contents) -> Any:
    steps = played.steps
    observations = _column([step.observation for step in steps], characters["observation"])
    infos = {name: _info([step.info.get(name) for step in steps]) for name in steps[0].info}
    for name, source in ALIGNED.items():
        infos[name] = _info([*(step.info[source] for step in steps[1:]), 0])
    if contents.behaviours:
        infos[LOG_PROBABILITIES] = log_probabilities(contents.behaviours[played.recorded.agent], played)
    if contents.infos is not None:
        infos = {name: infos[name] for name in contents.infos if name in infos}
    return minari.data_collector.EpisodeBuffer(
        seed=played.recorded.seed,
        options={"task": played.recorded.number, **played.recorded.options},
        observations=DictLayout(played.env.observation_space).flat(observations) if contents.flat else observations,
        actions=_column([step.action for step in steps[1:]], characters["action"]),
        rewards=[step.reward for step in steps[1:]],
        terminations=[step.terminated for step in steps[1:]],
        truncations=[step.truncated for step in steps[1:]],
        infos=infos,
    )


def log_probabilities(behaviour: Agent, recorded: ReplayedEpisode) -> list[float]:
    """The logarithm of the probability of each recorded action, and 0 for the last observation, where none was taken."""
    steps, episode = recorded.steps, recorded.recorded
    if isinstance(behaviour, SoftAgent):  # its rule has a memory, so it plays the episode again
        for _ in play_again(recorded.env, behaviour, episode.number, episode.seed, options=episode.options):
            pass
        return [*behaviour.log_probabilities, 0.0]
    probabilities = getattr(behaviour, "probabilities", None)
    if probabilities is None:
        return [0.0] * len(steps)
    taken = (probabilities(before.observation, before.info)[after.action] for before, after in pairwise(steps))
    return [*(float(np.log(chance)) for chance in taken), 0.0]


def _column(values: list[Any], characters: set[str]) -> Any:
    if isinstance(values[0], str):
        texts = [readable(value) for value in values]
        characters.update(*texts)
        return texts
    if isinstance(values[0], dict):
        return {name: np.stack([value[name] for value in values]) for name in values[0]}
    return values


def _info(values: list[Any]) -> Any:
    if isinstance(values[0], np.ndarray):
        return np.stack(values)
    if all(isinstance(value, bool | int | float | np.number | np.bool_) for value in values):
        return [value.item() if isinstance(value, np.generic) else value for value in values]
    return [readable(value) if isinstance(value, str) else json.dumps(value, default=str) for value in values]


def check_minari(folder: Path) -> list[str]:
    """Check a dataset of `to_minari`: replay every episode in the recovered environment, and return the problems found."""
    minari = require("minari", "data")
    problems: list[str] = []
    dataset = minari.MinariDataset(folder / "data")
    env = dataset.recover_environment()
    records = dataset.storage.get_episode_metadata(range(dataset.total_episodes))
    for record, episode in zip(records, dataset.iterate_episodes(), strict=True):
        options = {name: int(value) for name, value in record["options"].items()}
        actions = (action if isinstance(action, str) else int(action) for action in episode.actions)
        steps = list(actions_replayed(env, int(record["seed"]), options, actions))
        if problem := _differs(steps, episode):
            problems.append(f"episode {episode.id}: {problem}")
    return problems


def _differs(steps: Sequence[Step], episode: Any) -> str:
    rewards, ends, cuts = zip(*((step.reward, step.terminated, step.truncated) for step in steps[1:]), strict=True)
    pairs = {"rewards": (rewards, float), "terminations": (ends, bool), "truncations": (cuts, bool)}
    for name, (wanted, kind) in pairs.items():
        if list(wanted) != list(map(kind, getattr(episode, name))):
            return f"{name} differ from the replay's"
    column = _column([step.observation for step in steps], set())
    if isinstance(column, dict):
        same = all(np.array_equal(column[name], episode.observations[name]) for name in column)
    else:
        same = np.array_equal(np.asarray(column), np.asarray(episode.observations))
    if not same:
        return "observations differ from the replay's"
    for name, source in ALIGNED.items():
        if name in episode.infos and list(map(float, episode.infos[name])) != [*(step.info[source] for step in steps[1:]), 0.0]:
            return f"{name} differ from the replay's"
    return ""


def datasets_in(root: str | Path | None) -> AbstractContextManager[None]:
    """Set Minari's folder of datasets temporarily, since Minari has no argument for it."""
    return nullcontext() if root is None else variables({"MINARI_DATASETS_PATH": str(Path(root).resolve())})
