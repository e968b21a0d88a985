"""The native vector environment of the marketplace: compiled steps of N episodes.

It equals Gymnasium's ``SyncVectorEnv`` over `marketplace.MarketplaceEnv` bit for bit: seeds, tasks, observations, rewards,
ends, masks and every figure in `info`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...simulators.batch.state import Batch
from ...simulators.ledger import RESOURCES
from ..marketplace import MAX_NEEDS, NEED_FEATURES, RESOURCE_FEATURES, TOOL_FEATURES, MarketplaceEnv
from .base import Mask, NativeVectorEnv, Observation
from .info import COUNTS, FIGURES, figures_info
from .kernels import marketplace as kernels


class MarketplaceVectorEnv(NativeVectorEnv):
    """N environments `costgym/Marketplace-v0`. The arguments are those of `NativeVectorEnv`."""

    scalar_type = MarketplaceEnv
    scalar: MarketplaceEnv

    def _build(self) -> None:
        scalar, num_envs = self.scalar, self.num_envs
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
        masks = np.stack([template[2] for template in templates])[:, None, :]
        shares = scalar._shares
        return kernels.View(
            tools=np.stack([template[0] for template in templates]),
            plain=np.stack([template[1] for template in templates]),
            mask=(masks & ~np.pad(tables.banned[: len(templates)], ((0, 0), (0, 0), (0, 2)))).reshape(-1, scalar.max_tools + 2),
            quote=(tables.quote * scalar._scale).astype(np.float32),
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
        """Bytes of the state of all episodes, without shared tables and without the arrays that a step returns."""
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
        """The row of a task; a task of another split is added to the tables."""
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
        """Arrays for a step to write to. They are new, except for the observations with ``copy=False``."""
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
