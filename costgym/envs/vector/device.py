"""Native vector environments whose steps are PyTorch tensors: on the CPU, and on a GPU where their state lies as well.

`Tensors` hands out the arrays of a native environment as tensors of the same memory. `DeviceVectorEnv` keeps state, tables and
observations on a device and plays with the same kernels there, one thread an environment.
"""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from costgym.envs.vector.attributes import AttributesByName
from costgym.envs.vector.kernels import marketplace as kernels
from costgym.envs.vector.marketplace import NativeVectorEnv
from costgym.simulators.batch.device import Device, find_device, take_words
from costgym.simulators.errors import ConfigError, EpisodeOver, require


def make_on_device(env_id: str, num_envs: int, device: str, **settings: Any) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Make a native vector environment that takes and returns tensors on ``cpu``, ``cuda`` or ``cuda:N``.

    Raises ConfigError where there is no native batch or no such device, and MissingExtra without PyTorch or numba-cuda.
    """
    require("torch", "train")
    if device != "cpu" and env_id != "costgym/Marketplace-v0":
        raise ConfigError("device", f"only costgym/Marketplace-v0 has kernels for a GPU, got {env_id}")
    chosen = find_device(device)
    on_gpu = chosen.name != "cpu"
    if on_gpu:
        settings["all_tables"] = True
    made = gym.make_vec(env_id, num_envs=num_envs, **settings)
    native = made.unwrapped
    if not isinstance(native, NativeVectorEnv):
        raise ConfigError("device", f"expected an environment with a native batch, got {env_id!r}")
    return DeviceVectorEnv(native, chosen) if on_gpu else Tensors(made)


def map_arrays(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to the arrays in a tuple of tuples; other values stay."""
    if isinstance(tree, tuple):
        parts = [map_arrays(function, part) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    return function(tree) if isinstance(tree, np.ndarray) or hasattr(tree, "device") else tree


class Tensors(gym.vector.VectorWrapper[Any, Any, Any, Any, Any]):
    """A native environment on the CPU that takes and returns PyTorch tensors. They share the memory of its arrays.

    Arrays of Python objects, as `final_obs` is, stay arrays.
    """

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None) -> Any:
        env: Any = self.env  # its `seed` may be a list
        return _tensors(env.reset(seed=seed, options=options))

    def step(self, actions: Any) -> Any:
        return _tensors(self.env.step(actions.detach().cpu().numpy() if hasattr(actions, "detach") else actions))

    def action_masks(self) -> Any:
        """The present action masks, (N, actions) bool."""
        env: Any = self.env.unwrapped
        return _tensors(env.action_masks())


def _tensors(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_tensors, value))
    if isinstance(value, dict):
        return {key: _tensors(part) for key, part in value.items()}
    if isinstance(value, np.ndarray) and value.dtype != np.object_:
        return require("torch", "train").from_numpy(value)
    return value


class DeviceVectorEnv(AttributesByName, gym.vector.VectorEnv[Any, Any, Any]):
    """A native environment on a device. Actions, observations, rewards, ends and `info` are tensors there.

    Environment i plays bit for bit what it plays on the CPU. With ``copy=False`` a step overwrites the tensors of the step
    before. Where a step resets ended episodes at once, `info["final_obs"]` is there after every step and holds tensors of all
    environments, of which those count that `info["_final_obs"]` marks.

    Args:
        native: the environment; its own arrays are not used after this.
    """

    def __init__(self, native: NativeVectorEnv, device: Device) -> None:
        self.native, self.scalar, self.device = native, native.scalar, device
        self.num_envs, self.copy, self.spec = native.num_envs, native.copy, native.spec
        self.metadata, self.autoreset_mode, self.render_mode = native.metadata, native.autoreset_mode, None
        self.single_observation_space, self.single_action_space = native.single_observation_space, native.single_action_space
        self.observation_space, self.action_space = native.observation_space, native.action_space
        self._torch = require("torch", "train")
        native.batch.make_full_room()
        self._state, self._streams = map_arrays(device.put, (native.batch.state, native._streams))
        self._take_tables()
        count = self.num_envs
        self._undrawn = map_arrays(device.put, native._undrawn)
        self._everywhere = self._tensor(np.ones(count, np.bool_))
        self._ended, self._begun = ~self._everywhere, np.zeros(count, np.bool_)
        self._out: Any = None
        self._views: Any = None
        self._mask: Any = None

    def _take_tables(self) -> None:
        native, self._known = self.native, self.native.shared_nbytes
        self._tables, self._rules, self._view = map_arrays(
            self.device.put, (native.batch.tables, native.batch.rules, native._view)
        )

    def _tensor(self, array: NDArray[Any]) -> Any:
        return self._torch.from_numpy(array).to(self.device.name)

    def _new(self) -> tuple[Any, Any]:
        """Tensors for a step to write to, and the arrays of the same memory that kernels take."""
        if self._out is None or self.copy:
            like = self.native.fresh()
            self._out = map_arrays(self._empty, like)
            self._views = map_arrays(self.device.view, self._out)
        self._mask = self._out.mask
        return self._out, self._views

    def _empty(self, like: NDArray[Any]) -> Any:
        dtype = self._torch.from_numpy(np.empty(0, like.dtype)).dtype
        return self._torch.zeros(like.shape, dtype=dtype, device=self.device.name)

    # -- reset -------------------------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin new episodes; the arguments are those of `NativeVectorEnv.reset`, a ``reset_mask`` may be a tensor."""
        options = dict(options or {})
        if hasattr(options.get("reset_mask"), "cpu"):
            options["reset_mask"] = options["reset_mask"].cpu().numpy()
        native, device = self.native, self.device
        where, starts, words, taken = native.read_reset(seed, options)
        if native.shared_nbytes != self._known:  # a task from another split has got its tables
            self._take_tables()
        device.launch(take_words, self.num_envs, self._streams, device.put(words), device.put(taken))
        out, views = self._new()
        chosen = self._tensor(where)
        self._begin(views, map_arrays(device.put, starts), chosen, True)
        self._begun |= where
        self._ended &= ~chosen
        return native.observations(out), self._info(out, chosen)

    def _begin(self, views: Any, starts: Any, where: Any, show_all: bool) -> None:
        self._launch(kernels.reset_row, views, starts, self.device.view(where), show_all)

    def _launch(self, row: Any, views: Any, *arguments: Any) -> None:
        world = self._tables, self._rules, self._state, self._view, views, self._streams
        self.device.launch(row, self.num_envs, *world, *arguments)

    # -- step --------------------------------------------------------------------------------------------------------------

    def step(self, actions: Any) -> Any:
        """Play one action, of (N,) integers on the device or in an array, in each environment.

        Raises ConfigError for another shape or type, and EpisodeOver where no episode has begun or an ended one was not reset.
        """
        torch, native, mode = self._torch, self.native, self.autoreset_mode
        numbers = torch.as_tensor(actions, device=self.device.name)
        if numbers.shape != (self.num_envs,) or numbers.is_floating_point() or numbers.dtype == torch.bool:
            raise ConfigError("actions", f"expected {self.num_envs} integers, got {tuple(numbers.shape)} of {numbers.dtype}")
        if not self._begun.all():
            raise EpisodeOver("no episode has begun; call reset() first")
        if mode is AutoresetMode.DISABLED and bool(self._ended.any()):
            raise EpisodeOver('an environment has ended; call reset(options={"reset_mask": mask}) before the next step')
        numbers = numbers.to(torch.int64).contiguous()
        out, views = self._new()
        self._launch(kernels.step_row, views, self.device.view(numbers), self._undrawn)
        self._ended = out.terminated | out.truncated
        rewards, terminated, truncated = out.rewards, out.terminated, out.truncated
        info: dict[str, Any] = {}
        if mode is AutoresetMode.SAME_STEP:
            info = self._begin_ended(out, views)
        info = {**self._info(out, self._everywhere), **info}
        return native.observations(out), rewards, terminated, truncated, info

    def _begin_ended(self, out: Any, views: Any) -> dict[str, Any]:
        """Begin the episodes that have just ended; returns the last observations and `info` of all."""
        # kept before the next kernel writes over them; whether any has ended is not looked at, which would wait for the GPU
        last = map_arrays(lambda tensor: tensor.clone(), out)
        observations, info = self.native.observations(last), self._info(last, self._ended)
        self._begin(views, self._undrawn, self._ended, False)
        ended = self._ended
        return {"final_obs": observations, "_final_obs": ended, "final_info": info, "_final_info": ended}

    # -- results -----------------------------------------------------------------------------------------------------------

    def _info(self, out: Any, where: Any) -> dict[str, Any]:
        info: dict[str, Any] = self.native.figures(out)
        if where is not self._everywhere:
            outside = ~where
            info = {key: tensor.masked_fill(outside.reshape(-1, *[1] * (tensor.ndim - 1)), 0) for key, tensor in info.items()}
        for key in tuple(info):
            info[f"_{key}"] = where
        return info

    def action_masks(self) -> Any:
        """The present action masks, a tensor (N, actions); raises EpisodeOver where no episode has begun."""
        if self._mask is None:
            raise EpisodeOver("no episode has begun; call reset() first")
        return self._mask.clone()
