"""Collecting trajectories: an agent plays, every episode is recorded, and a kill loses at most the one in flight."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym

from ..agents.base import Agent
from ..envs.base import ToolEnv
from ..simulators.errors import ConfigError
from .files import read_lines, sole_writer, write_atomically
from .trajectories import Header, record


def collect(
    env: gym.Env[Any, Any],
    agent: Agent,
    episodes: int,
    out: str | Path,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Record episodes into ``out/trajectories.jsonl``; a run that was killed continues and ends with the same bytes.

    Args:
        env: an environment of costgym; its split, budget and grading hold.
        agent: any agent for that view.
        episodes: how many, at least 1.
        out: the folder; created if need be.
        seed: same seed, same bytes.
        progress: called with the numbers of recorded and of all episodes.

    Returns:
        The trajectory file.

    Raises:
        ConfigError: the folder holds another collection.
    """
    if isinstance(episodes, bool) or not isinstance(episodes, int) or episodes < 1:
        raise ConfigError("episodes", f"expected a positive whole number, got {episodes!r}")
    world = env.unwrapped
    assert isinstance(world, ToolEnv)
    header = Header.of(env, env.spec.id if env.spec is not None else agent.env_id)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trajectories.jsonl"
    with sole_writer(folder):
        lines = read_lines(path)
        if lines and lines[0] != header.to_json():
            raise ConfigError("--out", f"{path} holds a collection of another world or other settings; choose another folder")
        kept = lines[1 : episodes + 1]
        if kept and record_name(kept[0]) != (agent.name, seed):
            raise ConfigError("--out", f"{path} holds a collection of another agent or seed; choose another folder")
        write_atomically(path, "".join(f"{line}\n" for line in [header.to_json(), *kept]))
        numbers = world.numbers
        with path.open("a", encoding="utf-8") as store:
            for index in range(len(kept), episodes):
                number, world_seed = numbers[index % len(numbers)], seed + index // len(numbers)
                trajectory, _ = record(env, agent, number, world_seed, index)
                store.write(trajectory.sealed(header).to_json() + "\n")
                store.flush()
                if progress is not None:
                    progress(index + 1, episodes)
    return path


def record_name(line: str) -> tuple[str, int]:
    """Agent and first seed of a collection, from its first episode's line."""
    import json

    document = json.loads(line)
    return document["agent"], document["seed"]
