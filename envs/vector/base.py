"""The base of native vector environments: seeds, autoreset, and `info` as Gymnasium's vector environments give it.

A subclass names the scalar environment (`scalar_type`), sets up its arrays (`_build`), begins and plays episodes in compiled
code (`_begin`, `_play`) and returns arrays (`_fresh`, `_observations`, `_figures`). Everything else is here, and equals
``SyncVectorEnv`` over the scalar environment.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from ...simulators.batch.arguments import BoundArguments, rebound
from ...simulators.batch.rng import in_threads, most_threads, stream_words
from ...simulators.errors import ConfigError, EpisodeOver
from ..base import BaseEnv, InvalidAction, with_step_limit

Observation = dict[str, NDArray[Any]]
Arrays = NDArray[np.float64]
Mask = NDArray[np.bool_]

_WORD = (1 << 64) - 1
NO_TIME_LIMIT = (1 << 31) - 1  # steps; no episode is as long
MOST_KEPT = 3  # arrays of one shape: those of this step and of the step before, and one more
_UNHELD = 3  # references to an array that only the pool holds: its list, a variable, and an argument


class ArrayPool:
    """Arrays for observations. One that nobody holds any more is handed out again, which saves the system's new pages
    (`benchmarks/tricks.py`)."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, ...], list[NDArray[np.float32]]] = {}

    def empty(self, *shape: int) -> NDArray[np.float32]:
        """An array of any content; nobody else holds it, nor a view of it."""
        kept = self._kept.setdefault(shape, [])
        for array in kept:
            # a caller may keep an observation for as long as it likes: only one that nobody holds is written over
            if sys.getrefcount(array) == _UNHELD:
                return array
        array = np.empty(shape, np.float32)
        if len(kept) < MOST_KEPT:
            kept.append(array)
        return array


class StepArrays(Protocol):
    """Arrays that every step writes: action masks (N, actions), rewards and ends (N,)."""

    @property
    def mask(self) -> Mask: ...
    @property
    def rewards(self) -> Arrays: ...
    @property
    def terminated(self) -> Mask: ...
    @property
    def truncated(self) -> Mask: ...


class Start(NamedTuple):
    """What a caller's reset begins, from `NativeVectorEnv._start`.

    Attributes:
        where: (N,) the environments to reset.
        chosen: what `NativeVectorEnv._chosen` made of the options.
        seeds, given: (N,) the episodes' seeds, and where one was given.
        words, taken: (N, 4) new states of generators, and (N,) where they are taken.
    """

    where: Mask
    chosen: Any
    seeds: NDArray[np.uint64]
    given: Mask
    words: NDArray[np.uint64]
    taken: Mask


class Beginning(NamedTuple):
    """Which episodes begin on a device, and with what, as its arrays.

    Attributes:
        where: (N,) the episodes that begin.
        rows: (N,) a row of the tables, or -1 to draw one.
        seeds, given: (N,) the episode's seed, and whether it is given.
        chosen: what `NativeVectorEnv._chosen` made of a reset's options; None draws everything.
        show_all: also write the state of the others.
    """

    where: Any
    rows: Any
    seeds: Any
    given: Any
    chosen: Any
    show_all: bool


class Turn(NamedTuple):
    """A step on a device: actions (N,), whether ended episodes begin anew instead, whether the arrays to write to are new, and
    rows and seeds (N,) that let the kernels draw what begins."""

    actions: Any
    autoreset: bool
    fresh: bool
    rows: Any
    seeds: Any
    given: Any


class Parts(NamedTuple):
    """An environment's arrays: tables and settings, which episodes share, their state, and their generators."""

    shared: tuple[Any, ...]
    state: Any
    streams: Any


class NativeVectorEnv(gym.vector.VectorEnv[Observation, Any, Any]):
    """Base of the native vector environments.

    Environment i equals the scalar one reset with ``seed + i``; later resets draw from its own generator. `info` holds an array
    of N for each key of the scalar environment and, as in Gymnasium's vector environments, a mask ``_key``.

    Args:
        num_envs: number of environments N.
        autoreset_mode: what follows the end of an episode. `NEXT_STEP`: the next step resets it, whatever its action.
            `SAME_STEP`: it is reset at once; `info["final_obs"]` and `info["final_info"]` hold its last observation and `info`.
            `DISABLED`: the caller resets it with ``options={"reset_mask": mask}``.
        copy: return new arrays at every step. Without it, a step overwrites the observations of the step before, which is
            faster.
        threads: number of threads that play a step. The results do not depend on it.
        max_episode_steps: number of steps after which an episode is truncated, as by Gymnasium's wrapper `TimeLimit` around the
            scalar environment; unlike `max_steps`, observations tell nothing of it. None or -1: no such limit.
        all_tables: make the tables of all tasks at the start, also of a large split, so that kernels draw the tasks.
        settings: keyword arguments of the scalar environment.

    Attributes:
        scalar: the scalar environment, which gives the spaces and the settings.

    Raises:
        MissingExtra: Numba is not installed.
        ConfigError: an argument is out of range; the message names it.
    """

    scalar_type: ClassVar[type[BaseEnv[Any, Any]]]
    scalar: Any

    _spec: EnvSpec | None = None
    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        threads: int = 1,
        all_tables: bool = False,
        max_episode_steps: int | None = None,
        **settings: Any,
    ) -> None:
        self.all_tables = all_tables
        self.autoreset_mode, self.threads = _checked_mode(num_envs, autoreset_mode), _checked_threads(threads)
        self.time_limit = _checked_time_limit(max_episode_steps)
        self.scalar = scalar = self._make_scalar(settings)
        self.num_envs, self.copy = num_envs, copy
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = None
        self.step_limit = min(self.time_limit, scalar.step_limit or NO_TIME_LIMIT)
        self.single_observation_space, self.single_action_space = scalar.observation_space, scalar.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._streams = np.zeros((num_envs, 4), np.uint64)
        self._seeded = np.zeros(num_envs, np.bool_)
        self._ended = np.zeros(num_envs, np.bool_)
        self._begun = np.zeros(num_envs, np.bool_)
        self._mask: Mask | None = None
        self._pool = ArrayPool()
        self._bound: BoundArguments | None = None
        self._build()

    @property
    def spec(self) -> EnvSpec | None:
        """The specification from which the environment was made; `max_episode_steps` is its step limit."""
        return self._spec

    @spec.setter
    def spec(self, value: EnvSpec | None) -> None:
        self._spec = with_step_limit(value, self.step_limit)

    def _run(self, one: Callable[..., None], parts: Callable[..., None], steady: tuple[Any, ...], *arguments: Any) -> None:
        """Call the kernel that plays a part, for the whole batch, or the one that plays all parts on their threads.

        Args:
            steady: the first arguments, which hardly ever change; the kernel gets them as one `BoundArguments`.
            arguments: the others.
        """
        self._bound = bound = rebound(self._bound, steady)
        if self.threads == 1:
            one(bound, *arguments, 0)
        else:
            in_threads(self.threads, parts, bound, *arguments)

    # -- what a subclass provides ------------------------------------------------------------------------------------------

    def _make_scalar(self, settings: dict[str, Any]) -> BaseEnv[Any, Any]:
        """Make the scalar environment."""
        return self.scalar_type(**settings)

    def _build(self) -> None:
        """Allocate the state of N episodes and the tables they share; the constructor calls this last."""
        raise NotImplementedError

    def _chosen(self, options: dict[str, Any]) -> Any:
        """Read a reset's options other than ``reset_mask`` for `_begin`, before any state changes."""
        raise NotImplementedError

    def _fresh(self) -> Any:
        """Arrays for a step to write to. They are new, except for the observations with ``copy=False``."""
        raise NotImplementedError

    def _outcome(self, out: Any) -> StepArrays:
        """The masks, rewards and ends among the arrays of `_fresh`."""
        arrays: StepArrays = out
        return arrays

    def _begin(
        self, out: Any, where: Mask, chosen: Any = None, seeds: NDArray[np.uint64] | None = None, given: Mask | None = None
    ) -> None:
        """Begin the episodes of `where`; with `seeds` (a reset by the caller) also write the present state of the others.

        Args:
            chosen: the result of `_chosen`; None draws everything.
            seeds, given: (N,) the seeds, and where one was given. The streams are seeded already.
        """
        raise NotImplementedError

    def _play(self, out: Any, actions: NDArray[Any], next_step: bool) -> None:
        """Play one step of every episode; with `next_step`, ended episodes begin anew instead."""
        raise NotImplementedError

    def _observations(self, out: Any) -> Observation:
        raise NotImplementedError

    def _figures(self, out: Any) -> dict[str, NDArray[Any]]:
        """The scalar environment's `info` as arrays, none of them shared with another step."""
        raise NotImplementedError

    @property
    def shared_nbytes(self) -> int:
        """Bytes of the tables that all environments share."""
        raise NotImplementedError

    # -- on another device -------------------------------------------------------------------------------------------------

    def _parts(self) -> Parts:
        """The arrays that a device needs, with all the room that an episode can use."""
        raise NotImplementedError

    def _reset_call(self, parts: Parts, out: Any, begin: Beginning) -> tuple[Any, ...]:
        """The row function that begins episodes, and its arguments but the row's number."""
        raise NotImplementedError

    def _step_call(self, parts: Parts, out: Any, turn: Turn) -> tuple[Any, ...]:
        """The row function that plays a step, and its arguments but the row's number."""
        raise NotImplementedError

    # -- reset -------------------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin new episodes.

        Args:
            seed: environment i gets ``seed + i``, or the i-th of a list. None continues each environment's generator.
            options: ``reset_mask``, (N,) bool, selects the environments to reset; the other options are those of the scalar
                environment and hold for all.
        """
        start = self._start(seed, options)
        self._streams[start.taken] = start.words[start.taken]
        out = self._new()
        self._begin(out, start.where, start.chosen, start.seeds, start.given)
        self._begun |= start.where
        self._ended[start.where] = False
        return self._observations(out), self._info(out, None if start.where.all() else start.where)

    def _start(self, seed: int | Sequence[int | None] | None, options: dict[str, Any] | None) -> Start:
        """Read the arguments of a reset, before any state changes."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        where = self._reset_mask(options)
        count = self.num_envs
        chosen = self._chosen(options or {})
        seeds = [None] * count if seed is None else [seed + i for i in range(count)] if isinstance(seed, int) else list(seed)
        if len(seeds) != count:
            raise ConfigError("seed", f"expected a list of {count} seeds, one per environment, got {len(seeds)}")
        numbers, given, words = np.zeros(count, np.uint64), np.zeros(count, np.bool_), np.zeros((count, 4), np.uint64)
        for i in np.flatnonzero(where).tolist():
            single = seeds[i]
            if single is not None:
                words[i], numbers[i], given[i] = stream_words(int(single)), int(single) & _WORD, True
            elif not self._seeded[i]:
                words[i] = stream_words(None)
        taken = given | (where & ~self._seeded)
        self._seeded |= where
        return Start(where, chosen, numbers, given, words, taken)

    def _reset_mask(self, options: dict[str, Any] | None) -> Mask:
        if not options or "reset_mask" not in options:
            return np.ones(self.num_envs, np.bool_)
        mask = options["reset_mask"]
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,) or not mask.any():
            shown = f"{mask.dtype} {mask.shape}" if isinstance(mask, np.ndarray) else type(mask).__name__
            raise ConfigError(
                'options["reset_mask"]', f"expected a bool array of shape ({self.num_envs},) that is not all False, got {shown}"
            )
        return mask.copy()

    # -- step --------------------------------------------------------------------------------------------------------------

    def step(self, actions: Any) -> tuple[Observation, Arrays, Mask, Mask, dict[str, Any]]:
        """Play one action in each environment.

        Args:
            actions: (N,) integers. An action outside the mask has the same effect as in the scalar environment.

        Raises:
            ConfigError: the shape of `actions` is wrong.
            InvalidAction: an action is outside the space.
            EpisodeOver: no episode has begun, or, with autoreset disabled, an ended episode has not been reset.
        """
        numbers = np.asarray(actions)
        if numbers.shape != (self.num_envs,):
            raise ConfigError("actions", f"expected {self.num_envs} integers, got shape {numbers.shape} of {numbers.dtype}")
        count = int(self.single_action_space.n)  # type: ignore[attr-defined]
        if not np.issubdtype(numbers.dtype, np.integer) or numbers.min() < 0 or numbers.max() >= count:
            raise InvalidAction(f"actions: expected whole numbers from 0 to {count - 1}, got {numbers.dtype} {numbers!r:.60}")
        if not self._begun.all():
            raise EpisodeOver("no episode has begun; call reset() first")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            ended = np.flatnonzero(self._ended).tolist()
            raise EpisodeOver(
                f'environments {ended} have ended; call reset(options={{"reset_mask": mask}}) before the next step'
            )
        out = self._new()
        self._play(out, numbers, self.autoreset_mode is AutoresetMode.NEXT_STEP)
        # the next step or the caller begins these episodes; until then their arrays show the end
        outcome = self._outcome(out)
        self._ended = outcome.terminated | outcome.truncated
        final: dict[str, Any] = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._ended.any():
            final = self._final(out)
            self._begin(out, self._ended)
        info = self._info(out)
        info.update(final)
        return self._observations(out), outcome.rewards, outcome.terminated, outcome.truncated, info

    def _final(self, out: Any) -> dict[str, Any]:
        """The last observations and `info` of the episodes that have just ended, taken before they are reset."""
        ended = self._ended
        places = np.flatnonzero(ended)
        last = {key: array[places] for key, array in self._observations(out).items()}
        observations = np.full(self.num_envs, None, dtype=object)
        for k, i in enumerate(places.tolist()):
            observations[i] = {key: array[k] for key, array in last.items()}
        info = self._info(out, ended.copy())
        return {"final_obs": observations, "_final_obs": ended.copy(), "final_info": info, "_final_info": ended.copy()}

    # -- results -----------------------------------------------------------------------------------------------------------

    def _new(self) -> Any:
        out = self._fresh()
        self._mask = self._outcome(out).mask
        return out

    def _info(self, out: Any, where: Mask | None = None) -> dict[str, Any]:
        """The figures, each with its mask.

        Args:
            where: the environments that have some, in copies of the arrays that are zero elsewhere; None for all.
        """
        info: dict[str, Any] = self._figures(out)
        if where is not None:
            info = {key: array.copy() for key, array in info.items()}
            for array in info.values():
                array[~where] = 0
        info.update(dict.fromkeys([f"_{key}" for key in info], np.ones(self.num_envs, np.bool_) if where is None else where))
        return info

    def action_masks(self) -> Mask:
        """The present action masks, (N, actions) bool.

        Raises:
            EpisodeOver: no episode has begun.
        """
        if self._mask is None:
            raise EpisodeOver("no episode has begun; call reset() first")
        return self._mask.copy()


def _checked_threads(threads: int) -> int:
    most = most_threads()
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= most:
        raise ConfigError("threads", f"expected a whole number from 1 to {most}, the threads of this machine, got {threads!r}")
    return threads


def _checked_time_limit(steps: int | None) -> int:
    if steps in (None, -1):
        return NO_TIME_LIMIT
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ConfigError("max_episode_steps", f"expected a positive whole number, got {steps!r}")
    return steps


def _checked_mode(num_envs: int, autoreset_mode: str | AutoresetMode) -> AutoresetMode:
    """Check the number of environments and the autoreset mode; return the mode."""
    if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1:
        raise ConfigError("num_envs", f"expected a positive whole number, got {num_envs!r}")
    try:
        return AutoresetMode(autoreset_mode)
    except ValueError:
        modes = ", ".join(mode.value for mode in AutoresetMode)
        raise ConfigError("autoreset_mode", f"expected one of {modes}, got {autoreset_mode!r}") from None
