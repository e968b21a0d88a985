"""Record the episodes that clients play as a collection of trajectories, which `costgym verify` replays like any other."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import gymnasium as gym
import numpy as np

from ...envs.base import NO_OPTIONS, base_env
from ...simulators.errors import ConfigError
from ..files import iter_lines, keep_lines, sole_writer, write_atomically
from ..trajectories.format import Header
from ..trajectories.record import digest, trajectory_of


class Recorder:
    """Appends each episode that ends to ``folder/trajectories.jsonl``; a folder of the same world is continued.

    Episodes that a client leaves before their end are not recorded.

    Args:
        folder: where to write; locked until `close`.
        env: an environment like those of the sessions.
        env_id: its id.
        agent: the name under which the episodes are recorded.

    Raises:
        ConfigError: the folder holds a collection of another world, or another process writes to it.
    """

    def __init__(self, folder: Path, env: gym.Env[Any, Any], env_id: str, agent: str) -> None:
        self.agent, self._held = agent, ExitStack()
        self._header = Header.of(env, env_id)
        folder.mkdir(parents=True, exist_ok=True)
        self._held.enter_context(sole_writer(folder))
        path = folder / "trajectories.jsonl"
        first = next(iter_lines(path), None) if path.exists() else None
        if first is None:
            write_atomically(path, self._header.to_json() + "\n")
        elif first != self._header.to_json():
            self._held.close()
            raise ConfigError("--record", f"{path} holds episodes of another scenario or other settings; choose another folder")
        self.episodes = keep_lines(path, 2**62) - 1
        self._store = self._held.enter_context(path.open("a", encoding="utf-8"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def add(self, env: gym.Env[Any, Any], tape: Tape, truncated: bool) -> None:
        """Write the episode that has just ended in an environment."""
        played = tape.actions, tape.rewards, tape.digests, truncated
        trajectory, _ = trajectory_of(base_env(env), self.agent, "", self.episodes, NO_OPTIONS, *played)
        self._store.write(trajectory.sealed_json(self._header) + "\n")
        self._store.flush()
        self.episodes += 1

    def close(self) -> None:
        """Sync the file, close it and free the folder."""
        if not self._store.closed:
            os.fsync(self._store.fileno())
        self._held.close()


class Tape:
    """The actions, rewards and digests of observations of an episode in progress."""

    def __init__(self, observation: Any) -> None:
        self.actions: list[Any] = []
        self.rewards: list[float] = []
        self.digests = [digest(observation)]

    def step(self, action: Any, reward: float, observation: Any) -> None:
        self.actions.append(int(action) if isinstance(action, np.integer) else action)
        self.rewards.append(reward)
        self.digests.append(digest(observation))
