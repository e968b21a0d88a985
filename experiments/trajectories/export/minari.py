"""Export trajectories as a Minari dataset.

The environment's spec contains the whole scenario, so `minari.load_dataset(id).recover_environment()` restores the episodes'
environment. The episode buffers are built here rather than by Minari's data collector, which needs JAX and checks every text
character by character.
"""

from __future__ import annotations

import json
import os
import string
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from ....simulators.errors import ConfigError, UnknownName, require
from ...files import finished_folder, write_atomically
from ..format import Header
from ..replay import ReplayedEpisode, Step, readable, replayed

STORAGES = ("hdf5", "arrow", "parquet")
BATCH_STEPS = 5_000
"""Number of steps held in memory before they are written."""


def to_minari(
    path: str | Path,
    dataset_id: str,
    storage: str = "hdf5",
    root: str | Path | None = None,
    data: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Path:
    """Export trajectories as a Minari dataset.

    Each episode stores its seed and `options={"task": number}`, with which the recovered environment can be reset to replay it.
    Texts are `Text` spaces over the characters that occur. Infos contain numbers, strings and arrays; other values are stored
    as JSON text.

    Args:
        path: a trajectory file, or a folder of trajectory files with the same scenario and settings.
        dataset_id: a Minari dataset id: `name-v0`, or with folders `costgym/marketplace/react-v0`.
        storage: hdf5, arrow or parquet.
        root: Minari's folder of datasets; None for Minari's default.
        data: folder of a ToolBench scenario, if it has moved since the recording.
        progress: called with the number of written episodes.

    Returns:
        Folder of the dataset.

    Raises:
        ConfigError: the id is not a Minari dataset id, the dataset exists, or the files have several scenarios or settings.
        DataError: the trajectories cannot be read or do not replay.
    """
    minari = require("minari", "data")
    from minari.dataset.minari_dataset import parse_dataset_id

    if storage not in STORAGES:
        raise UnknownName("storage", storage, STORAGES)
    try:
        namespace = parse_dataset_id(dataset_id)[0]
    except (ValueError, TypeError):
        raise ConfigError("--out", f"expected a Minari id such as costgym/react-v0, got {dataset_id!r}") from None
    with _datasets_in(root):
        target = Path(minari.storage.get_dataset_path(dataset_id))
        with finished_folder(target) as draft:
            with _datasets_in(draft):
                _write(minari, path, dataset_id, storage, data, progress)
                written = Path(minari.storage.get_dataset_path(dataset_id))
            _lift(written, draft)
        if namespace is not None and namespace not in minari.namespace.list_local_namespaces():
            minari.namespace.create_namespace(namespace)
    return target


def _lift(written: Path, draft: Path) -> None:
    """Move the dataset's files up into the draft folder and remove the folders in between."""
    inner = draft.with_name(draft.name + ".in")
    written.rename(inner)
    import shutil

    shutil.rmtree(draft)
    inner.rename(draft)


def _write(
    minari: Any, path: str | Path, dataset_id: str, storage: str, data: str | None, progress: Callable[[int], None] | None
) -> None:
    dataset: Any = None
    first: Header | None = None
    characters = {"observation": set(string.printable), "action": set(string.printable)}
    buffers: list[Any] = []
    agents: set[str] = set()
    held = 0
    for count, played in enumerate(replayed(path, data), 1):
        first = first or played.header
        if played.header.seal != first.seal:
            raise ConfigError("--format", "a Minari dataset has one scenario and one budget; these files have several")
        agents.add(played.recorded.agent)
        buffers.append(_buffer(minari, played, characters))
        held += len(played.steps)
        if held >= BATCH_STEPS:
            dataset = _flush(minari, dataset, buffers, dataset_id, storage, played, data)
            buffers, held = [], 0
        if progress is not None:
            progress(count)
    if first is None:
        raise ConfigError("--format", f"{path} contains no episode")
    if buffers:
        dataset = _flush(minari, dataset, buffers, dataset_id, storage, played, data)
    folder = Path(dataset.storage.data_path)
    metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    for kind, space in (("observation", played.env.observation_space), ("action", played.env.action_space)):
        if isinstance(space, gym.spaces.Text):
            metadata[f"{kind}_space"] = minari.serialization.serialize_space(_plain(space, characters[kind]))
    metadata["algorithm_name"] = ", ".join(sorted(agents))
    metadata["dataset_size"] = round(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6, 1)
    write_atomically(folder / "metadata.json", json.dumps(metadata))


def _flush(
    minari: Any, dataset: Any, buffers: Sequence[Any], dataset_id: str, storage: str, played: ReplayedEpisode, data: str | None
) -> Any:
    if dataset is not None:
        dataset.update_dataset_from_buffer(list(buffers))
        return dataset
    header, env = played.header, played.env
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # warns about missing authors and permalink
        dataset = minari.create_dataset_from_buffers(
            dataset_id,
            [],
            env=recoverable_spec(header, env, data),
            observation_space=_plain(env.observation_space, set(string.printable)),
            action_space=_plain(env.action_space, set(string.printable)),
            algorithm_name=played.recorded.agent,
            description=f"Episodes of {header.env} in the scenario {header.scenario.get('name')} (digest {header.digest}).",
            requirements=[f"costgym=={header.version}"],
            data_format=storage,
            jpeg_encoding=False,
        )
    # summing the sizes of all files after every episode would take time quadratic in the number of episodes
    dataset.storage.get_size = lambda: 0.0
    dataset.update_dataset_from_buffer(list(buffers))
    return dataset


def recoverable_spec(header: Header, env: gym.Env[Any, Any], data: str | None = None) -> Any:
    """Return the environment's spec with every argument as JSON, so that it depends on no file but this package."""
    spec = copy(gym.spec(header.env))
    spec.kwargs = header.arguments(data)
    spec.disable_env_checker = True
    return spec


def _plain(space: gym.Space[Any], characters: set[str]) -> gym.Space[Any]:
    if isinstance(space, gym.spaces.Text):
        return gym.spaces.Text(space.max_length, min_length=0, charset="".join(sorted(characters)))
    return space


def _buffer(minari: Any, played: ReplayedEpisode, characters: dict[str, set[str]]) -> Any:
    steps = played.steps
    return minari.data_collector.EpisodeBuffer(
        seed=played.recorded.seed,
        options={"task": played.recorded.number, **played.recorded.options},
        observations=_column([step.observation for step in steps], characters["observation"]),
        actions=_column([step.action for step in steps[1:]], characters["action"]),
        rewards=[step.reward for step in steps[1:]],
        terminations=[step.terminated for step in steps[1:]],
        truncations=[step.truncated for step in steps[1:]],
        infos={name: _info([step.info.get(name) for step in steps]) for name in steps[0].info},
    )


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
        # a list of Python numbers, because Minari's Arrow storage cannot read one-dimensional arrays
        return [value.item() if isinstance(value, np.generic) else value for value in values]
    return [readable(value) if isinstance(value, str) else json.dumps(value, default=str) for value in values]


def steps_of(env: gym.Env[Any, Any], seed: int, options: dict[str, Any], actions: Sequence[Any]) -> Iterator[Step]:
    """Replay an exported episode from its data in Minari."""
    observation, info = env.reset(seed=seed, options=options)
    yield Step(None, observation, 0.0, False, False, info)
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        yield Step(action, observation, float(reward), terminated, truncated, info)


def check_minari(dataset_id: str, root: str | Path | None = None) -> list[str]:
    """Check a dataset written by `to_minari`: replay every episode in the recovered environment and return the problems found.

    Args:
        dataset_id: id of the dataset.
        root: Minari's folder of datasets; None for Minari's default.
    """
    minari = require("minari", "data")
    with _datasets_in(root):
        return check_minari_at(Path(minari.storage.get_dataset_path(dataset_id)))


def check_minari_at(folder: Path) -> list[str]:
    """Check the dataset in a folder; see `check_minari`."""
    minari = require("minari", "data")
    problems: list[str] = []
    dataset = minari.MinariDataset(folder / "data")
    env = dataset.recover_environment()
    records = dataset.storage.get_episode_metadata(range(dataset.total_episodes))
    for record, episode in zip(records, dataset.iterate_episodes(), strict=True):
        options = {name: int(value) for name, value in record["options"].items()}
        steps = list(steps_of(env, int(record["seed"]), options, [_native(action) for action in episode.actions]))
        problem = _differs(steps, episode)
        if problem:
            problems.append(f"episode {episode.id}: {problem}")
    return problems


def _native(action: Any) -> Any:
    return action if isinstance(action, str) else int(action)


def _differs(steps: Sequence[Step], episode: Any) -> str:
    if [step.reward for step in steps[1:]] != list(map(float, episode.rewards)):
        return "rewards differ from the replay's"
    if [step.terminated for step in steps[1:]] != list(map(bool, episode.terminations)):
        return "terminations differ from the replay's"
    if [step.truncated for step in steps[1:]] != list(map(bool, episode.truncations)):
        return "truncations differ from the replay's"
    column = _column([step.observation for step in steps], set())
    if isinstance(column, dict):
        same = all(np.array_equal(column[name], episode.observations[name]) for name in column)
    else:
        same = column == list(episode.observations)
    return "" if same else "observations differ from the replay's"


@contextmanager
def _datasets_in(root: str | Path | None) -> Iterator[None]:
    """Set Minari's folder of datasets temporarily, since Minari has no argument for it."""
    if root is None:
        yield
        return
    before = os.environ.get("MINARI_DATASETS_PATH")
    os.environ["MINARI_DATASETS_PATH"] = str(Path(root).resolve())
    try:
        yield
    finally:
        if before is None:
            del os.environ["MINARI_DATASETS_PATH"]
        else:
            os.environ["MINARI_DATASETS_PATH"] = before
