"""The native vector view of the marketplace: N episodes a step, no Python loop over them.

Equal to Gymnasium's ``SyncVectorEnv`` over `marketplace.MarketplaceEnv` to the last bit: seeds, tasks, observations, rewards,
ends, masks and every figure in `info`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ...simulators.batch.state import Batch
from ...simulators.ledger import RESOURCES
from ..marketplace import MAX_NEEDS, NEED_FEATURES, RESOURCE_FEATURES, TOOL_FEATURES, MarketplaceEnv
from .base import Mask, NativeVectorEnv, Observation, checked_mode, one_step_limit
from .info import COUNTS, FIGURES, figures_info
from .kernels import marketplace as kernels


class MarketplaceVectorEnv(NativeVectorEnv):
    """`costgym/Marketplace-v0`, N at once.

    Args:
        num_envs, autoreset_mode, copy: see `NativeVectorEnv`.
        settings: of `MarketplaceEnv`.

    Raises:
        MissingExtra: Numba is not installed.
        CostGymError: a setting makes no sense; says which.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        **settings: Any,
    ) -> None:
        checked_mode(num_envs, autoreset_mode)
        self.scalar = scalar = MarketplaceEnv(**one_step_limit(settings))
        super().__init__(scalar, num_envs, autoreset_mode, copy)
        self.batch = Batch(
            scalar.world, scalar.numbers, num_envs, scalar.budget, scalar.enforcement, scalar.max_tools, scalar.max_steps
        )
        self._choices = len(scalar.numbers)
        self._view = self._make_view()
        self._changing = np.zeros((num_envs, scalar.max_tools, len(TOOL_FEATURES) - kernels.CHANGING), np.float32)
        self._observed: tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]] | None = None

    def _make_view(self) -> kernels.View:
        scalar, tables = self.scalar, self.batch.tables
        templates = [scalar.template(number) for number in self.batch.numbers]
        shares, width, actions = scalar._shares, scalar.max_tools, scalar.finish_action + 1
        slots, rows = np.zeros((2, len(templates), width), np.int16)
        mask = np.repeat(np.stack([template.mask for template in templates])[:, None], tables.banned.shape[1], axis=1)
        for number, template in enumerate(templates):
            count = len(template.slots)
            slots[number, :count], rows[number, :count] = template.slots, template.rows
            mask[number, :, :count] &= ~tables.banned[number][:, list(template.slots)]
        return kernels.View(
            tools=np.stack([template.tools for template in templates]),
            plain=np.stack([template.needs for template in templates]),
            mask=mask.reshape(-1, actions),
            quote=np.minimum(tables.quote * scalar._scale, scalar._highest).astype(np.float32),
            slots=slots,
            rows=rows,
            need_of=np.stack([template.need_of for template in templates]).astype(np.int8),
            concurrent=scalar.concurrent,
            useful=scalar.mask == "useful",
            highest=float(scalar._highest),
            least=float(scalar._least),
            choices=self._choices,
            max_steps=scalar.max_steps,
            scale=float(scalar._scale),
            loss=float(scalar._loss),
            alpha=float(scalar.world.alpha),
            price_share=float(shares[0]),
            seconds_share=float(shares[1]),
            calls_share=float(shares[3]),
            judged=scalar.grading == "judge",
            resource=RESOURCES.index(scalar.cost),
        )

    @property
    def nbytes(self) -> int:
        """Bytes held of all episodes, without what they share and what a step hands out."""
        return self.batch.nbytes + self._changing.nbytes + self._streams.nbytes

    @property
    def shared_nbytes(self) -> int:
        """Bytes of the tables that all environments share."""
        view = (part for part in self._view if isinstance(part, np.ndarray))
        return sum(array.nbytes for array in (*self.batch.tables, *view))

    # -- reset -------------------------------------------------------------------------------------------------------------

    def _chosen(self, options: dict[str, Any]) -> int | None:
        """The row of ``options["task"]``: a number or an id."""
        return None if options.get("task") is None else self._row(self.scalar._task_number(options["task"]))

    def _begin(
        self,
        out: kernels.Out,
        where: Mask,
        chosen: int | None = None,
        seeds: NDArray[np.uint64] | None = None,
        given: Mask | None = None,
    ) -> None:
        batch, count = self.batch, self.num_envs
        show_all = seeds is not None
        tasks = np.full(count, -1 if chosen is None else chosen, np.int64)
        seeds = np.zeros(count, np.uint64) if seeds is None else seeds
        given = np.zeros(count, np.bool_) if given is None else given
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

    # -- step --------------------------------------------------------------------------------------------------------------

    def _play(self, out: kernels.Out, actions: NDArray[Any], next_step: bool) -> None:
        batch = self.batch
        records, idle, _ = kernels.step_all(
            batch.tables, batch.rules, batch.state, self._view, out, self._streams, actions, next_step, self.copy
        )
        batch.make_room(records, idle)

    # -- what is handed out ------------------------------------------------------------------------------------------------

    def _fresh(self) -> kernels.Out:
        """Arrays to write to: new ones, but for the observations where nothing is copied."""
        count, scalar = self.num_envs, self.scalar
        width = scalar.max_tools
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
            mask=np.empty((count, scalar.finish_action + 1), np.bool_),
            rewards=np.empty(count),
            terminated=np.empty(count, np.bool_),
            truncated=np.empty(count, np.bool_),
            figures=np.empty((len(FIGURES), count)),
            counts=np.empty((len(COUNTS), count), np.int64),
            success=np.empty(count, np.bool_),
            changing=self._changing,
        )
        if not self.copy:
            self._observed = tools, needs, resources
        return out

    def _observations(self, out: kernels.Out) -> Observation:
        return {"tools": out.tools, "needs": out.needs, "resources": out.resources}

    def _figures(self, out: kernels.Out) -> dict[str, NDArray[Any]]:
        return figures_info(out, self.scalar.cost)
