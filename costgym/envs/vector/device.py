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
from costgym.envs.vector.marketplace import NativeVectorEnv
from costgym.simulators.batch.device import Device, find_device, take_words
from costgym.simulators.errors import ConfigError, EpisodeOver, require

ON_GPU = "costgym/Marketplace-v0", "costgym/MarketplaceSession-v1"
"""The environments whose kernels draw every episode, so that a GPU plays them by itself."""


def make_on_device(
    env_id: str, num_envs: int, device: str, graph: bool | None = None, **settings: Any
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Make a native vector environment that takes and returns tensors on ``cpu``, ``cuda`` or ``cuda:N``.

    Raises ConfigError where there is no native batch or no such device, and MissingExtra without PyTorch or numba-cuda.
    """
    require("torch", "train")
    if device != "cpu" and env_id not in ON_GPU:
        raise ConfigError("device", f"only {' and '.join(ON_GPU)} have kernels for a GPU, got {env_id}")
    if graph and (device == "cpu" or settings.get("copy", True)):
        raise ConfigError("graph", "needs a GPU, and copy=False, since a graph writes to the same tensors at every step")
    chosen = find_device(device)
    on_gpu = chosen.name != "cpu"
    if on_gpu and env_id == ON_GPU[0]:
        settings["all_tables"] = True
    made = gym.make_vec(env_id, num_envs=num_envs, **settings)
    native = made.unwrapped
    if not isinstance(native, NativeVectorEnv):
        raise ConfigError("device", f"expected an environment with a native batch, got {env_id!r}")
    return DeviceVectorEnv(native, chosen, graph) if on_gpu else Tensors(made)


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
        device: where it lies and plays.
        graph: capture the first step but one, and replay it from then on, so that a step takes the host no time. Its tensors
            are those of the step before. None: where the device can, and ``copy=False`` allows it.

    Raises:
        ConfigError: its episodes are drawn in Python.
    """

    def __init__(self, native: NativeVectorEnv, device: Device, graph: bool | None = None) -> None:
        self.native, self.scalar, self.device = native, native.scalar, device
        self._graph = device.captures and not native.copy if graph is None else graph
        self.num_envs, self.copy, self.spec = native.num_envs, native.copy, native.spec
        self.metadata, self.autoreset_mode, self.render_mode = native.metadata, native.autoreset_mode, None
        self.single_observation_space, self.single_action_space = native.single_observation_space, native.single_action_space
        self.observation_space, self.action_space = native.observation_space, native.action_space
        self._torch = require("torch", "train")
        if native._by_row:
            raise ConfigError("device", "expected episodes that kernels draw, got a world whose episodes are drawn in Python")
        native.batch.make_full_room()
        # arrays that kernels keep up to date and steps hand out
        self._kept = {id(array): self._tensor(array) for array in native._observed or ()}
        self._state, self._streams = map_arrays(self._put, (native.batch.state, native._streams))
        self._take_tables()
        count = self.num_envs
        self._undrawn = map_arrays(device.put, native._undrawn)
        self._everywhere = self._tensor(np.ones(count, np.bool_))
        self._ended, self._begun = ~self._everywhere, np.zeros(count, np.bool_)
        self._actions = self._tensor(np.zeros(count, np.int64))
        self._count, rows = self._tensor(np.zeros(1, np.int64)), self._tensor(np.zeros(count, np.int64))
        at_once = self.autoreset_mode is AutoresetMode.SAME_STEP
        self._beginners = native.kernels.Ended(device.view(rows), device.view(self._count), at_once)
        self._chosen = device.view(self._actions)
        self._out: Any = None
        self._views: Any = None
        self._mask: Any = None
        self._result: Any = None

    def _take_tables(self) -> None:
        native, self._known = self.native, self.native.shared_nbytes
        self._replay: Callable[[], None] = self._play  # until a step is captured; a graph would use the old tables
        self._tables, self._rules, self._view = map_arrays(self._put, (native.batch.tables, native.batch.rules, native._view))

    def _put(self, array: NDArray[Any]) -> Any:
        return self.device.view(self._kept[id(array)]) if id(array) in self._kept else self.device.put(array)

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
        if id(like) in self._kept:
            return self._kept[id(like)]
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
        begun = map_arrays(device.put, starts), device.view(chosen := self._tensor(where)), True
        self._launch(native.kernels.reset_row, views, *begun)
        self._begun |= where
        self._ended &= ~chosen
        return native.observations(out), self._info(out, chosen)

    def _launch(self, row: Any, views: Any, *arguments: Any, lanes: int = 1) -> None:
        world = self._tables, self._rules, self._state, self._view, views, self._streams
        self.device.launch(row, self.num_envs, *world, *arguments, lanes=lanes)

    # -- step --------------------------------------------------------------------------------------------------------------

    def step(self, actions: Any) -> Any:
        """Play one action, of (N,) integers on the device or in an array, in each environment.

        Raises ConfigError for another shape or type, and EpisodeOver where no episode has begun or an ended one was not reset.
        """
        torch = self._torch
        numbers = torch.as_tensor(actions, device=self.device.name)
        if numbers.shape != (self.num_envs,) or numbers.is_floating_point() or numbers.dtype == torch.bool:
            raise ConfigError("actions", f"expected {self.num_envs} integers, got {tuple(numbers.shape)} of {numbers.dtype}")
        if not self._begun.all():
            raise EpisodeOver("no episode has begun; call reset() first")
        if self.autoreset_mode is AutoresetMode.DISABLED and bool(self._ended.any()):
            raise EpisodeOver('an environment has ended; call reset(options={"reset_mask": mask}) before the next step')
        self._actions.copy_(numbers)
        if self._graph and self._result is not None and self._replay == self._play:
            self._replay = self.device.capture(self._play)
        self._replay()
        observations, rewards, terminated, truncated, info = self._result
        return dict(observations), rewards, terminated, truncated, dict(info)

    def _play(self) -> None:
        """Play the actions, and begin the episodes that have to."""
        out, views = self._new()
        self._count.zero_()
        taken = self._chosen, self._undrawn, self._beginners
        self._launch(self.native.kernels.act_row, views, *taken)
        info: dict[str, Any] = {}
        if self.autoreset_mode is not AutoresetMode.NEXT_STEP:
            self._ended = out.terminated | out.truncated
        if self._beginners.at_once:
            # kept before the next kernels write over them; whether any has ended is not looked at: it would wait for the GPU
            last = map_arrays(lambda tensor: tensor.clone(), out)
            info = {"final_obs": self.native.observations(last), "final_info": self._info(last, self._ended)}
            info |= {"_final_obs": self._ended, "_final_info": self._ended}
        if self.autoreset_mode is not AutoresetMode.DISABLED:
            for row, lanes in self.native.kernels.BEGINNING:
                self._launch(row, views, *taken, lanes=lanes)
        info = {**self._info(out, self._everywhere), **info}
        self._result = self.native.observations(out), out.rewards, out.terminated, out.truncated, info

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
