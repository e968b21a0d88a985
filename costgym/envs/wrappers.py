"""Wrappers that adapt costs, observations and masks to learning libraries; `envs.vector.wrappers` has them for vectors."""

from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from costgym.simulators.errors import ConfigError

Info = dict[str, Any]


class Multiplied:
    """Part of a wrapper that has a multiplier; setting one that is negative or not a finite number raises `ConfigError`."""

    _multiplier: float

    @property
    def multiplier(self) -> float:
        """Reward per unit of cost."""
        return self._multiplier

    @multiplier.setter
    def multiplier(self, value: float) -> None:
        number = isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
        if not number or not np.isfinite(value) or value < 0:
            raise ConfigError("multiplier", f"expected a finite number of at least 0, got {value!r}")
        self._multiplier = float(value)


def expect_five_values(env: Any, what: str) -> None:
    """Check that nothing under a wrapper or a loop returns six values from `step`.

    Raises:
        ConfigError: a `CostTuple`, scalar or vector, is there.
    """
    while env is not None:
        if getattr(env, "returns_cost", False):
            advice = "put CostTuple around everything else, or read info['cost']"
            raise ConfigError(what, f"expected five values from step, but CostTuple returns six; {advice}")
        env = vars(env).get("env")


class DictLayout:
    """The positions of a Dict's boxes in one float32 vector, in the order of the Dict's keys.

    Raises:
        ConfigError: the space is not a Dict of boxes.

    Attributes:
        space: the vector's box.
    """

    def __init__(self, space: gym.Space[Any]) -> None:
        if not isinstance(space, gym.spaces.Dict):
            raise ConfigError("FlattenObservation", f"expected a Dict of boxes as observation space, got {space}")
        self._dimensions: dict[str, int] = {}
        lows, highs = [], []
        for name, box in space.spaces.items():
            if not isinstance(box, gym.spaces.Box):
                raise ConfigError("FlattenObservation", f"expected a Box at {name!r}, got {box}")
            self._dimensions[name] = len(box.shape)
            lows.append(box.low.ravel())
            highs.append(box.high.ravel())
        low, high = np.concatenate(lows).astype(np.float32), np.concatenate(highs).astype(np.float32)
        self.space = gym.spaces.Box(low, high, dtype=np.float32)

    def flat(self, observation: Any) -> NDArray[np.float32]:
        """An observation, or a batch of them with leading axes, as vectors along the last axis."""
        parts = []
        for name, dimensions in self._dimensions.items():
            part = observation[name]
            parts.append(part.reshape(*part.shape[: part.ndim - dimensions], -1))
        return np.concatenate(parts, axis=-1, dtype=np.float32)


def masked_space(actions: gym.Space[Any], observations: gym.Space[Any]) -> gym.spaces.Dict:
    """The space of observations with the mask of discrete actions beside them.

    Raises:
        ConfigError: the actions are not discrete.
    """
    if not isinstance(actions, gym.spaces.Discrete):
        raise ConfigError("MaskObservation", f"expected discrete actions, got {actions}")
    mask = gym.spaces.Box(0, 1, (int(actions.n),), np.int8)
    return gym.spaces.Dict({"action_mask": mask, "observations": observations})


class CostTuple(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Return the cost of a step next to its reward, as Safety-Gymnasium does: `step` returns six values.

    The cost is `info["cost"]`, the step's use of the resource chosen by the environment's argument `cost`. Wrappers, vector
    environments and trainers of Gymnasium and Stable-Baselines3 expect five values from `step`, so this wrapper goes outermost;
    `envs.vector.wrappers.CostTuple` is its vector form.

    Raises:
        ConfigError: there is a `CostTuple` already. Our other wrappers and `rollout` raise it when they meet one.

    >>> import costgym
    >>> env = CostTuple(costgym.make("costgym/Marketplace-v0", cost="seconds"))
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, cost, terminated, truncated, info = env.step(0)
    >>> cost == info["cost_seconds"] > 0
    True
    """

    returns_cost = True

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        expect_five_values(env, "CostTuple")
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, float, bool, bool, Info]:  # type: ignore[override]
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, float(info["cost"]), terminated, truncated, info


class LagrangianReward(Multiplied, gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Subtract the weighted cost from the reward: ``reward - multiplier * cost``.

    `multiplier` can be set between steps, as dual ascent does. `info["reward"]` keeps the environment's own reward.

    Args:
        env: any environment whose `info` holds a cost.
        multiplier: reward per unit of cost, at least 0.

    Raises:
        ConfigError: the multiplier is negative or not a finite number.

    >>> import costgym
    >>> env = LagrangianReward(costgym.make("costgym/Marketplace-v0"), multiplier=0.5)
    >>> observation, info = env.reset(seed=0)
    >>> env.multiplier = 0.25
    >>> observation, reward, terminated, truncated, info = env.step(0)
    >>> reward == info["reward"] - 0.25 * info["cost"]
    True
    """

    def __init__(self, env: gym.Env[Any, Any], multiplier: float = 0.0) -> None:
        expect_five_values(env, "LagrangianReward")
        RecordConstructorArgs.__init__(self, multiplier=multiplier)
        gym.Wrapper.__init__(self, env)
        self.multiplier = multiplier

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        info["reward"] = float(reward)
        return observation, float(reward) - self._multiplier * float(info["cost"]), terminated, truncated, info


class FlattenObservation(gym.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Flatten observations from a Dict of boxes to one float32 vector, in the order of the Dict's keys.

    Raises:
        ConfigError: the observation space is not a Dict of boxes.

    >>> import costgym
    >>> env = FlattenObservation(costgym.make("costgym/Marketplace-v0"))
    >>> observation, info = env.reset(seed=0)
    >>> observation.shape == env.observation_space.shape, observation.dtype.name
    (True, 'float32')
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        expect_five_values(env, "FlattenObservation")
        RecordConstructorArgs.__init__(self)
        gym.ObservationWrapper.__init__(self, env)
        self._layout = DictLayout(env.observation_space)
        self.observation_space = self._layout.space

    def observation(self, observation: Any) -> NDArray[np.float32]:
        return self._layout.flat(observation)


class MaskObservation(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Add the action mask to the observation in the form of RLlib's masked models: ``{"observations", "action_mask"}``.

    Raises:
        ConfigError: the actions are not discrete.

    >>> import costgym
    >>> env = MaskObservation(FlattenObservation(costgym.make("costgym/Marketplace-v0")))
    >>> observation, info = env.reset(seed=0)
    >>> sorted(observation), observation["action_mask"].shape == (env.action_space.n,)
    (['action_mask', 'observations'], True)
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        expect_five_values(env, "MaskObservation")
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        self.observation_space = masked_space(env.action_space, env.observation_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self._masked(observation, info), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._masked(observation, info), reward, terminated, truncated, info

    @staticmethod
    def _masked(observation: Any, info: Info) -> dict[str, Any]:
        return {"action_mask": info["action_mask"].astype(np.int8), "observations": observation}
