"""The wrappers of `envs.wrappers` for vector environments, the native batch or Gymnasium's, in every autoreset mode."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from costgym.envs.wrappers import DictLayout, Multiplied, expect_five_values, masked_space
from costgym.simulators.errors import ConfigError

Info = dict[str, Any]
Array = NDArray[Any]


def step_costs(info: Info) -> NDArray[np.float64]:
    """Return the cost of the last step in each environment, (N,), those included that were reset in the same step."""
    cost = np.asarray(info["cost"], np.float64)
    if "final_info" not in info:
        return cost
    return np.where(info["_final_info"], info["final_info"]["cost"], cost)


class _Wrapper(VectorWrapper):
    """Base of all; TorchRL asks a wrapper for `autoreset_mode`, which Gymnasium's base does not hand on."""

    @property
    def autoreset_mode(self) -> AutoresetMode:
        """How the wrapped vector begins the next episode after one has ended."""
        mode: AutoresetMode = self.metadata["autoreset_mode"]
        return mode


class CostTuple(_Wrapper):
    """Returns the costs beside the rewards: six values from `step`, the third an array of (N,).

    Gymnasium's wrappers expect five values, so this one goes outermost.

    >>> import costgym
    >>> env = CostTuple(costgym.make_vec("costgym/Marketplace-v0", 3))
    >>> observations, info = env.reset(seed=0)
    >>> observations, rewards, costs, terminated, truncated, info = env.step([0, 0, 0])
    >>> costs.shape
    (3,)
    """

    returns_cost = True

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        expect_five_values(env, "CostTuple")
        super().__init__(env)

    def step(self, actions: Any) -> Any:
        observations, rewards, terminated, truncated, info = self.env.step(actions)
        return observations, rewards, step_costs(info), terminated, truncated, info


class LagrangianReward(Multiplied, _Wrapper):
    """Subtracts the priced constraint from the rewards: ``rewards - multiplier * costs``.

    As `envs.wrappers.LagrangianReward`; `info["reward"]` keeps the environment's own rewards, (N,).

    >>> import costgym
    >>> env = LagrangianReward(costgym.make_vec("costgym/Marketplace-v0", 3), multiplier=0.5)
    >>> observations, info = env.reset(seed=0)
    >>> observations, rewards, terminated, truncated, info = env.step([0, 0, 0])
    >>> bool((rewards == info["reward"] - 0.5 * info["cost"]).all())
    True
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], multiplier: float = 0.0) -> None:
        expect_five_values(env, "LagrangianReward")
        super().__init__(env)
        self.multiplier = multiplier

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, Info]:
        observations, rewards, terminated, truncated, info = self.env.step(actions)
        info["reward"], info["_reward"] = rewards, np.ones(self.num_envs, np.bool_)
        return observations, rewards - self._multiplier * step_costs(info), terminated, truncated, info


class _Observations(_Wrapper):
    """Base of wrappers that change observations, the last ones of an episode included."""

    def _changed(self, observations: Any, info: Info) -> Any:
        """The observations of all environments, or of one: the axis of environments is simply there or not."""
        raise NotImplementedError

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        observations, info = self.env.reset(seed=seed, options=options)
        return self._changed(observations, info), info

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, Info]:
        observations, rewards, terminated, truncated, info = self.env.step(actions)
        if "final_obs" in info:
            ended, last = np.flatnonzero(info["_final_obs"]), info["final_obs"].copy()
            for i in ended.tolist():
                last[i] = self._changed(last[i], {key: values[i] for key, values in info["final_info"].items()})
            info["final_obs"] = last
        return self._changed(observations, info), rewards, terminated, truncated, info


class FlattenObservation(_Observations):
    """Flattens a Dict of boxes into one float32 vector for each environment, (N, length); ConfigError for other observations.

    >>> import costgym
    >>> env = FlattenObservation(costgym.make_vec("costgym/Marketplace-v0", 3))
    >>> env.reset(seed=0)[0].shape
    (3, 282)
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        expect_five_values(env, "FlattenObservation")
        super().__init__(env)
        self._layout = DictLayout(env.single_observation_space)
        self.single_observation_space = self._layout.space
        self.observation_space = batch_space(self._layout.space, env.num_envs)

    def _changed(self, observations: Any, info: Info) -> Array:
        return self._layout.flat(observations)


class MaskObservation(_Observations):
    """Puts the masks of discrete actions into the observations: ``{"observations", "action_mask"}``; else ConfigError.

    >>> import costgym
    >>> env = MaskObservation(FlattenObservation(costgym.make_vec("costgym/Marketplace-v0", 3)))
    >>> observations, info = env.reset(seed=0)
    >>> observations["action_mask"].shape
    (3, 17)
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        expect_five_values(env, "MaskObservation")
        super().__init__(env)
        space = masked_space(env.single_action_space, env.single_observation_space)
        self.single_observation_space: gym.Space[Any] = space
        self.observation_space = batch_space(space, env.num_envs)
        self._masks = np.ones((env.num_envs, space["action_mask"].shape[0]), np.int8)  # type: ignore[index]

    def _changed(self, observations: Any, info: Info) -> dict[str, Any]:
        if "action_mask" not in info:
            raise ConfigError("MaskObservation", "expected a mask in info['action_mask'], got none")
        mask = np.asarray(info["action_mask"]).astype(np.int8)
        if mask.ndim == 2:
            if not info["_action_mask"].all():  # a reset of some: the masks of the others stand as they were
                mask = np.where(info["_action_mask"][:, None], mask, self._masks)
            self._masks = mask
        return {"action_mask": mask.copy(), "observations": observations}
