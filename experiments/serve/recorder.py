"""Record the episodes that clients play as a collection of trajectories, which `costgym verify` replays like any other."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import gymnasium as gym
import numpy as np

from ...envs.base import NO_OPTIONS, base_env
from ...simulators.bounds import unreadable
from ...simulators.errors import ConfigError
from ..play.trajectories.collect import open_collection
from ..play.trajectories.format import Header, Trajectory
from ..play.trajectories.record import digest, trajectory_of


class Recorder:
    """Appends each episode that ends to `folder/trajectories.jsonl`, locked until `close`; a folder of the same world is
    continued. Episodes that a client leaves before their end are not recorded. Raises ConfigError if the folder is another
    world's or in use."""

    def __init__(self, folder: Path, env: gym.Env[Any, Any], env_id: str, agent: str) -> None:
        if problem := unreadable(agent):
            raise ConfigError("--record-as", problem)
        self.agent, self._held = agent, ExitStack()
        self._header = Header.of(env, env_id)
        self._store, self.episodes = self._held.enter_context(open_collection(folder, self._header, "--record"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def add(self, env: gym.Env[Any, Any], tape: "Tape", truncated: bool) -> None:
        """Write the episode that has just ended in an environment."""
        trajectory = tape.trajectory(env, self.agent, self.episodes, truncated)
        self._store.append(trajectory.sealed_json(self._header))
        self.episodes += 1

    def close(self) -> None:
        """Sync the file, close it and free the folder."""
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

    def trajectory(self, env: gym.Env[Any, Any], agent: str, index: int, truncated: bool) -> Trajectory:
        """The record of the episode, which has just ended in an environment."""
        played = self.actions, self.rewards, self.digests, truncated
        return trajectory_of(base_env(env), agent, "", index, NO_OPTIONS, *played)[0]
