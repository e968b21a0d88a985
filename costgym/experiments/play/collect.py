"""Collect trajectories: play episodes with an agent and record each one to a file."""

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym

from costgym.agents.base import Agent
from costgym.envs.base import base_env
from costgym.experiments.play.episodes import RolloutContext, chunks
from costgym.experiments.play.execution.engine import Engine, Local
from costgym.experiments.play.trajectories.format import Header, parse_trajectory
from costgym.experiments.play.trajectories.record import record
from costgym.simulators.errors import ConfigError, check_positive
from costgym.simulators.files import LineFile, iter_lines, keep_lines, make_folder, sole_writer, sync, write_atomically


def collect(
    env: gym.Env[Any, Any],
    agent: Agent,
    episodes: int,
    out: str | Path,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    engine: Engine | None = None,
) -> Path:
    """Record episodes in `out/trajectories.jsonl`. A killed run can be continued; the finished file has the same bytes,
    whatever the engine. Workers return several episodes at a time, so killing this process loses the episodes in progress."""
    check_positive("episodes", episodes)
    context = RolloutContext(env, agent)
    header = context.header
    with open_collection(Path(out), header, by=(agent.name, seed), most=episodes + 1) as (store, recorded):
        workers = engine or Local()
        lines = workers.stream(_lines, (context, seed), chunks(recorded, episodes, workers))
        for done, line in enumerate(lines, recorded + 1):
            store.append(line)
            if progress is not None:
                progress(done, episodes)
    return store.path


def _lines(shared: tuple[RolloutContext, int], indices: range) -> Iterator[str]:
    """Play the episodes of some indices and yield their records as JSON lines."""
    context, seed = shared
    header = context.header
    for index in indices:
        number, world_seed, options = base_env(context.env).instance(index, seed)
        trajectory, _ = record(context.env, context.agent, number, world_seed, index, options=options)
        yield trajectory.sealed_json(header)


@contextmanager
def open_collection(
    folder: Path, header: Header, option: str = "--out", by: tuple[str, int] | None = None, most: int = sys.maxsize
) -> Iterator[tuple[LineFile, int]]:
    """Open a collection to append to, and yield its file and its number of episodes; its folder is locked meanwhile, and
    afterwards what was written outlasts a power cut. `by` is its agent and first seed where one agent plays all, and at most
    `most` lines are kept. Raises ConfigError if the folder holds another collection, or another process writes to it."""
    make_folder(folder, option)
    path = folder / "trajectories.jsonl"
    with sole_writer(folder, alone=False):
        first, second = (*itertools.islice(iter_lines(path) if path.exists() else (), 2), None, None)[:2]
        if first is None:
            write_atomically(path, header.to_json() + "\n")
        elif first != header.to_json():
            problem = f"{path} holds a collection with another scenario or other settings; choose another folder"
            raise ConfigError(option, problem)
        if second is not None and by is not None:
            played = parse_trajectory(second, path, 2)
            if (played.agent, played.seed) != by:
                raise ConfigError(option, f"{path} holds a collection with another agent or seed; choose another folder")
        episodes = keep_lines(path, most) - 1  # without a line that a crash cut off, which would spoil the next one
        with closing(LineFile(path)) as store:
            yield store, episodes
        sync(path)
