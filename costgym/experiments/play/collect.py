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
    shard: tuple[int, int] = (1, 1),
) -> Path:
    """Record episodes in `out/trajectories.jsonl`. A killed run can be continued; the finished file has the same bytes,
    whatever the engine. Workers return several episodes at a time, so killing this process loses the episodes in progress.

    With `shard=(2, 4)` it records the second quarter of the episodes alone, in `out/shard-2-of-4`. The shards may be played on
    several machines; their lines, one file after the other, are those of the whole, and readers take the folder `out`."""
    check_positive("episodes", episodes)
    begin, end, folder = _shard(Path(out), episodes, *shard)
    context = RolloutContext(env, agent)
    first = base_env(env).instance(begin, seed)
    with open_collection(folder, context.header, by=(agent.name, first.seed), most=end - begin + 1) as (store, recorded):
        workers = engine or Local()
        lines = workers.stream(_lines, (context, seed), chunks(begin + recorded, end, workers))
        for done, line in enumerate(lines, recorded + 1):
            store.append(line)
            if progress is not None:
                progress(done, end - begin)
    return store.path


def _shard(out: Path, episodes: int, number: int, count: int) -> tuple[int, int, Path]:
    """The first index of a shard's episodes, the one behind its last, and its folder."""
    if not 1 <= number <= count <= episodes:
        problem = f"expected I/N with I from 1 to N, and N at most the {episodes:,} episodes, got {number}/{count}"
        raise ConfigError("shard", problem)
    name = f"shard-{number:0{len(str(count))}}-of-{count}"
    same = "*.jsonl" if count == 1 else f"shard-*-of-{count}/*.jsonl"
    if others := {*out.glob("*.jsonl"), *out.glob("shard-*-of-*/*.jsonl")} - {*out.glob(same)}:
        raise ConfigError("shard", f"{min(others)} has episodes that would be recorded twice; choose another folder")
    return episodes * (number - 1) // count, episodes * number // count, out if count == 1 else out / name


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
