"""Adapter of the native vector environment to Stable-Baselines3's `VecEnv`.

>>> from sb3_contrib import MaskablePPO                                    # doctest: +SKIP
>>> env = NativeVecEnv(256, scenario="marketplace")                        # doctest: +SKIP
>>> MaskablePPO("MultiInputPolicy", env, n_steps=64, gamma=1.0).learn(100_000)  # doctest: +SKIP
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from costgym.agents.base import NUMERIC, SESSION, SESSIONS_1
from costgym.envs.marketplace import Observation
from costgym.envs.native import MarketplaceVectorEnv, SessionVectorEnv, SessionVectorEnvV1
from costgym.envs.vector.marketplace import NativeVectorEnv
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import check_known, require
from costgym.simulators.forge.folder import WorldFolder, is_folder
from costgym.simulators.ledger import RESOURCES
from costgym.simulators.scenario import Scenario, parse_scenario

BATCHES: dict[str, Callable[..., NativeVectorEnv]] = {
    NUMERIC: MarketplaceVectorEnv,
    SESSION: SessionVectorEnv,
    **{env_id: partial(SessionVectorEnvV1, **gym.spec(env_id).kwargs) for env_id in SESSIONS_1},
}
VecEnv: Any = require("stable_baselines3.common.vec_env", "train").VecEnv


class NativeVecEnv(VecEnv):  # type: ignore[misc]
    """A batch of N marketplaces or sessions as an SB3 `VecEnv`, with same-step autoreset, action masks and episode statistics.

    Observations are passed on without a copy. SB3 expects one info dictionary per environment; it is empty unless the episode
    has just ended. Then it holds `terminal_observation`, `TimeLimit.truncated`, `episode` (return `r`, length `l`, wall time
    `t` in seconds), `is_success`, and every value of the scalar view's last `info`.

    Args:
        num_envs: number of environments N.
        worlds: number of worlds that are played at a time where the scenario is a folder of worlds; a reset after `seed(n)`
            draws others.
        env_id: ``costgym/Marketplace-v0``, ``costgym/MarketplaceSession-v0``, or version 1 of sessions at one of its levels.
        settings: settings of `MarketplaceVectorEnv`, except its autoreset mode.

    Attributes:
        info: the last `info` of the native environment.
        costs: what the last step cost: (N,) for each resource.
        statuses: (N,) how its calls ended; of no meaning where an episode ended.

    Raises:
        MissingExtra: Stable-Baselines3 or Numba is not installed.
    """

    def __init__(self, num_envs: int, worlds: int = 16, env_id: str = NUMERIC, **settings: Any) -> None:
        check_known("environment with a native batch", env_id, BATCHES)
        self._batch = BATCHES[env_id]
        self._settings: dict[str, Any] = {"num_envs": num_envs, "autoreset_mode": AutoresetMode.SAME_STEP, **settings}
        self._folder: WorldFolder[Scenario] | None = None
        if is_folder(settings.get("scenario")):
            self._folder, self._worlds = WorldFolder(Path(settings["scenario"]), parse_scenario), worlds
            self._settings["max_tools"] = self._folder.most_candidates
        self.info: dict[str, Any] = {}
        self.env = self._made(0)
        self._actions = np.zeros(num_envs, np.int64)
        self._returns, self._lengths = np.zeros(num_envs), np.zeros(num_envs, np.int64)
        self.costs = {name: np.zeros(num_envs) for name in RESOURCES}
        self.statuses = np.zeros(num_envs, np.int64)
        self._begin_s = time.perf_counter()
        super().__init__(num_envs, self.env.single_observation_space, self.env.single_action_space)

    def _made(self, seed: int) -> NativeVectorEnv:
        """The environment; over a folder, one of a few worlds, whose tables are then made once for many episodes."""
        if self._folder is None:
            return self._batch(**self._settings)
        drawn = [self._folder[stable_integer(seed, "world", k) % len(self._folder)] for k in range(self._worlds)]
        return self._batch(**{**self._settings, "scenario": drawn})

    def reset(self) -> Observation:
        """Start new episodes; after `seed(n)` environment i uses seed ``n + i``, otherwise each continues its generator."""
        if self._folder is not None and self._seeds[0] is not None:
            self.env = self._made(self._seeds[0])
        observation, self.info = self.env.reset(seed=list(self._seeds))
        self._returns[:], self._lengths[:] = 0.0, 0
        self._reset_seeds()
        self._reset_options()
        return observation

    def step_async(self, actions: NDArray[Any]) -> None:
        self._actions = np.asarray(actions).reshape(-1)

    def step_wait(self) -> tuple[Observation, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        observation, rewards, terminated, truncated, info = self.env.step(self._actions)
        self.info = info
        done = terminated | truncated
        self._returns += rewards
        self._lengths += 1
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        # with autoreset in the same step `info` is of the new episode, and what the last step cost stands in `final_info`
        last_step = {**info, **info["final_info"]} if done.any() else info
        self.statuses = info["status"]
        self.costs = {name: np.where(done, last_step[f"cost_{name}"], info[f"cost_{name}"]) for name in RESOURCES}
        over = np.flatnonzero(done).tolist()
        if over:
            final, last = info["final_info"], info["final_obs"]
            figures = {key: values for key, values in final.items() if not key.startswith("_")}
            wall_s = round(time.perf_counter() - self._begin_s, 6)
            for i in over:
                infos[i] = {key: values[i] if values.ndim > 1 else values[i].item() for key, values in figures.items()}
                infos[i]["terminal_observation"] = last[i]
                infos[i]["TimeLimit.truncated"] = bool(truncated[i])
                infos[i]["episode"] = {"r": float(self._returns[i]), "l": int(self._lengths[i]), "t": wall_s}
            self._returns[over], self._lengths[over] = 0.0, 0
        return observation, rewards.astype(np.float32), done, infos

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the mask of legal actions.  # (N, actions)"""
        return self.env.action_masks()

    def close(self) -> None:
        self.env.close()

    # -- attributes and methods by name, as SB3 requires -------------------------------------------------------------------

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of the adapter or of the environment, repeated once per environment."""
        adapter = {"render_mode": None, "action_masks": self.action_masks}
        value = adapter[attr_name] if attr_name in adapter else getattr(self.env, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise AttributeError(f"{attr_name!r} cannot be set: the environments share their arrays; pass it to NativeVecEnv(...)")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Sequence[Any]:
        """Return the action masks for `MaskablePPO`; no other method is available per environment."""
        if method_name != "action_masks":
            raise AttributeError(f"expected 'action_masks', got {method_name!r}: environments in a batch have no other methods")
        masks = self.action_masks()
        return list(masks if indices is None else masks[list(self._get_indices(indices))])

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False, since environments in a batch cannot be wrapped; episode statistics are in `info` nevertheless."""
        return [False for _ in self._get_indices(indices)]
