"""The native vector view of the marketplace: N episodes a step, no Python loop over them.

Equal to Gymnasium's ``SyncVectorEnv`` over `marketplace.MarketplaceEnv` to the last bit: seeds, tasks, observations, rewards,
ends, masks and every figure in `info`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from ..simulators.batch import Batch
from ..simulators.batch_random import stream_words
from ..simulators.errors import ConfigError, EpisodeOver
from ..simulators.ledger import RESOURCES
from . import vector_kernels as kernels
from .marketplace import MAX_NEEDS, NEED_FEATURES, RESOURCE_FEATURES, TOOL_FEATURES, MarketplaceEnv, Observation

FIGURES = (
    "cost_price", "cost_seconds", "cost_sum",
    "budget_remaining_price", "budget_remaining_seconds", "budget_remaining_tokens", "budget_remaining_calls", "at_s",
)  # fmt: skip
_WORD = (1 << 64) - 1

Arrays = NDArray[np.float64]
Mask = NDArray[np.bool_]


class MarketplaceVectorEnv(gym.vector.VectorEnv[Observation, Any, Any]):
    """`costgym/Marketplace-v0`, N at once.

    Environment i is `MarketplaceEnv` reset with ``seed + i``; later resets draw their task and seed from its own generator.
    `info` holds an array of N for each key of the scalar view and, as Gymnasium's vector environments do, a mask ``_key``.

    Args:
        num_envs: N.
        autoreset_mode: what follows the end of an episode. `NEXT_STEP`: the next step resets it, whatever its action.
            `SAME_STEP`: it is reset at once; `info["final_obs"]` and `info["final_info"]` hold how it ended. `DISABLED`: the
            caller resets it with ``options={"reset_mask": mask}``.
        copy: return fresh arrays; else the observations of one step are overwritten by the next, which is faster.
        settings: of `MarketplaceEnv`.

    Raises:
        MissingExtra: Numba is not installed.
        CostGymError: a setting makes no sense; says which.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        **settings: Any,
    ) -> None:
        if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1:
            raise ConfigError("num_envs", f"expected a positive whole number, got {num_envs!r}")
        self.num_envs, self.copy = num_envs, copy
        try:
            self.autoreset_mode = AutoresetMode(autoreset_mode)
        except ValueError:
            modes = ", ".join(mode.value for mode in AutoresetMode)
            raise ConfigError("autoreset_mode", f"expected one of {modes}, got {autoreset_mode!r}") from None
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = None
        self.scalar = scalar = MarketplaceEnv(**settings)
        self.single_observation_space, self.single_action_space = scalar.observation_space, scalar.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.batch = Batch(
            scalar.world, scalar.numbers, num_envs, scalar.budget, scalar.enforcement, scalar.max_tools, scalar.max_steps
        )
        self._choices = len(scalar.numbers)
        self._view = self._make_view()
        self._streams = np.zeros((num_envs, 4), np.uint64)
        self._seeded = np.zeros(num_envs, np.bool_)
        self._ended = np.zeros(num_envs, np.bool_)
        self._begun = np.zeros(num_envs, np.bool_)
        self._observed: tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]] | None = None
        self._mask: Mask | None = None

    def _make_view(self) -> kernels.View:
        scalar, tables = self.scalar, self.batch.tables
        templates = [scalar.template(number) for number in self.batch.numbers]
        masks = np.stack([template[2] for template in templates])[:, None, :]
        shares = scalar._shares
        tokens = scalar.budget.tokens
        return kernels.View(
            tools=np.stack([template[0] for template in templates]),
            plain=np.stack([template[1] for template in templates]),
            mask=(masks & ~np.pad(tables.banned, ((0, 0), (0, 0), (0, 2)))).reshape(-1, scalar.max_tools + 2),
            quote=(tables.quote * scalar._scale).astype(np.float32),
            needs=np.minimum(tables.need_count, MAX_NEEDS),
            choices=self._choices,
            max_steps=scalar.max_steps,
            scale=float(scalar._scale),
            loss=float(scalar._loss),
            alpha=float(scalar.world.alpha),
            price_share=float(shares[0]),
            seconds_share=float(shares[1]),
            calls_share=float(shares[3]),
            tokens_limit=float("inf") if tokens is None else float(tokens),
            judged=scalar.grading == "judge",
            resource=RESOURCES.index(scalar.cost),
        )

    @property
    def view_tables(self) -> tuple[NDArray[Any], ...]:
        """The view's arrays that all environments share."""
        return tuple(part for part in self._view if isinstance(part, np.ndarray))

    # -- reset -------------------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin new episodes.

        Args:
            seed: environment i gets ``seed + i``, or the i-th of a list; None goes on with its generator.
            options: ``reset_mask`` (N,) bool: only these; ``task``: a number or an id, for all of them.
        """
        super().reset(seed=seed if isinstance(seed, int) else None)
        where = self._reset_mask(options)
        count = self.num_envs
        chosen = -1
        if (options or {}).get("task") is not None:
            assert options is not None
            chosen = self._row(self.scalar._task_number(options["task"]))
        seeds = [None] * count if seed is None else [seed + i for i in range(count)] if isinstance(seed, int) else list(seed)
        if len(seeds) != count:
            raise ConfigError("seed", f"expected a list of {count} seeds, one per environment, got {len(seeds)}")
        numbers, given = np.zeros(count, np.uint64), np.zeros(count, np.bool_)
        for i in np.flatnonzero(where).tolist():
            single = seeds[i]
            if single is not None:
                self._streams[i], numbers[i], given[i] = stream_words(int(single)), int(single) & _WORD, True
            elif not self._seeded[i]:
                self._streams[i] = stream_words(None)
        out = self._fresh()
        self._begin(out, where, np.full(count, chosen, np.int64), numbers, given, show_all=True)
        self._seeded |= where
        self._begun |= where
        self._ended[where] = False
        return self._observations(out), self._info(out, where)

    def _begin(
        self,
        out: kernels.Out,
        where: Mask,
        tasks: NDArray[np.int64],
        seeds: NDArray[np.uint64],
        given: Mask,
        show_all: bool = False,
    ) -> None:
        batch = self.batch
        room = kernels.reset_where(
            batch.tables, batch.rules, batch.state, self._view, out, self._streams, tasks, seeds, given, where, show_all
        )
        batch.make_room(*room)

    def _row(self, number: int) -> int:
        """A task's row; the tables grow where it is of another split."""
        known = len(self.batch.numbers)
        row = self.batch.row(number)
        if len(self.batch.numbers) != known:
            self._view = self._make_view()
        return row

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
        """One action per environment, an array of N integers; one outside the mask is a refused call or a no-op.

        Raises:
            EpisodeOver: before the first reset, or, with autoreset disabled, while an ended episode has not been reset.
        """
        numbers = np.asarray(actions)
        if numbers.shape != (self.num_envs,) or not np.issubdtype(numbers.dtype, np.integer):
            raise ConfigError("actions", f"expected {self.num_envs} integers, got shape {numbers.shape} of {numbers.dtype}")
        if not self._begun.all():
            raise EpisodeOver("no episode has begun; call reset() first")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            ended = np.flatnonzero(self._ended).tolist()
            raise EpisodeOver(
                f'environments {ended} have ended; call reset(options={{"reset_mask": mask}}) before the next step'
            )
        batch, out = self.batch, self._fresh()
        next_step = self.autoreset_mode is AutoresetMode.NEXT_STEP
        records, idle, ended = kernels.step_all(
            batch.tables, batch.rules, batch.state, self._view, out, self._streams, numbers, next_step, self.copy
        )
        batch.make_room(records, idle)
        self._ended = out.terminated | out.truncated
        final: dict[str, Any] = {}
        if ended and self.autoreset_mode is AutoresetMode.SAME_STEP:
            final = self._final(out)
            count = self.num_envs
            nothing = np.zeros(count, np.uint64), np.zeros(count, np.bool_)
            self._begin(out, self._ended, np.full(count, -1, np.int64), *nothing)
        info = self._info(out, np.ones(self.num_envs, np.bool_))
        info.update(final)
        return self._observations(out), out.rewards, out.terminated, out.truncated, info

    def _final(self, out: kernels.Out) -> dict[str, Any]:
        """How the episodes that have just ended looked, before they are reset."""
        ended = self._ended
        places = np.flatnonzero(ended)
        tools, needs, resources = out.tools[places], out.needs[places], out.resources[places]
        observations = np.full(self.num_envs, None, dtype=object)
        for k, i in enumerate(places.tolist()):
            observations[i] = {"tools": tools[k], "needs": needs[k], "resources": resources[k]}
        info = self._info(out, ended.copy())
        return {"final_obs": observations, "_final_obs": ended.copy(), "final_info": info, "_final_info": ended.copy()}

    # -- what is handed out ------------------------------------------------------------------------------------------------

    def _fresh(self) -> kernels.Out:
        """Arrays to write to: new ones, but for the observations where nothing is copied."""
        count, width = self.num_envs, self.scalar.max_tools
        if self._observed is not None:
            tools, needs, resources = self._observed
        else:
            tools, needs, resources = (
                np.empty((count, width, len(TOOL_FEATURES)), np.float32),
                np.empty((count, MAX_NEEDS, len(NEED_FEATURES)), np.float32),
                np.empty((count, len(RESOURCE_FEATURES)), np.float32),
            )
        out = kernels.Out(
            tools=tools,
            needs=needs,
            resources=resources,
            mask=np.empty((count, width + 2), np.bool_),
            rewards=np.empty(count),
            terminated=np.empty(count, np.bool_),
            truncated=np.empty(count, np.bool_),
            figures=np.empty((len(FIGURES), count)),
            counts=np.empty((2, count), np.int64),
            success=np.empty(count, np.bool_),
        )
        self._mask = out.mask
        if not self.copy:
            self._observed = tools, needs, resources
        return out

    def _observations(self, out: kernels.Out) -> Observation:
        return {"tools": out.tools, "needs": out.needs, "resources": out.resources}

    def _info(self, out: kernels.Out, where: Mask) -> dict[str, Any]:
        """The scalar view's keys as arrays; zero where `where` is False."""
        some = not where.all()
        figures, counts = (np.where(where, out.figures, 0.0), out.counts * where) if some else (out.figures, out.counts)
        info: dict[str, Any] = dict(zip(FIGURES, figures, strict=True))
        info["cost_calls"], info["status"] = counts
        info["cost_tokens"] = np.zeros(self.num_envs, np.int64)
        info["is_success"] = out.success & where
        info["action_mask"] = out.mask & where[:, None] if some else out.mask.copy()
        info["cost"] = info[f"cost_{self.scalar.cost}"].copy()
        if self.scalar.cost in ("tokens", "calls"):
            info["cost_sum"] = info["cost_sum"].astype(np.int64)
        for key in tuple(info):
            info[f"_{key}"] = where
        return info

    def action_masks(self) -> Mask:
        """Which actions do something: (N, max_tools + 2)."""
        if self._mask is None:
            raise EpisodeOver("no episode has begun; call reset() first")
        return self._mask.copy()
