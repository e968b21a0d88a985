"""The native vector environment of DEER's branches: compiled steps of N episodes.

It equals Gymnasium's ``SyncVectorEnv`` over `decision.DecisionAwareEnv` bit for bit. A task's tables are made when it is first
drawn, as in the scalar environment, because a split has thousands of tasks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...simulators.batch.rng import draw_where
from ...simulators.batch.state import Batch
from ...simulators.batch.tables import put_rows, replaced
from ...simulators.ledger import RESOURCES
from ..decision import CANDIDATE_FEATURES, THINKING, DecisionAwareEnv
from .base import Beginning, Mask, NativeVectorEnv, Observation, Parts, Turn
from .info import COUNTS, FIGURES, figures_info
from .kernels import decision as kernels

Drawn = tuple[NDArray[np.int64], NDArray[np.uint64]]


class DecisionVectorEnv(NativeVectorEnv):
    """N environments `costgym/DecisionAware-v0`. The arguments are those of `NativeVectorEnv`."""

    scalar_type = DecisionAwareEnv
    scalar: DecisionAwareEnv

    def _build(self) -> None:
        scalar = self.scalar
        world = scalar.world
        self.batch = Batch(world, [], self.num_envs, scalar.budget, scalar.enforcement, scalar.k, most=1, at_once=1)
        self._numbers = np.array(scalar.numbers, np.int64)
        self._row_of = np.full(len(world.tasks), -1, np.int64)
        width = len(CANDIDATE_FEATURES) + scalar.features
        self._view = kernels.View(
            query=np.zeros((0, scalar.features), np.float32),
            candidates=np.zeros((0, scalar.k, width), np.float32),
            right=np.zeros((0, scalar.k + 2), np.bool_),
            tokens=np.zeros((0, len(THINKING)), np.int64),
            price=np.zeros((0, len(THINKING))),
            seconds=np.array([cost.seconds for cost in scalar.costs(int(self._numbers[0]))]),
            choices=len(scalar.numbers) if self.all_tables else 0,
            max_steps=scalar.max_steps,
            time_limit=self.time_limit,
            loss=float(scalar._loss),
            alpha=float(world.alpha),
            judged=scalar.grading == "judge",
            resource=RESOURCES.index(scalar.cost),
        )
        self._observed: tuple[NDArray[np.float32], ...] | None = None
        if self.all_tables:
            self._rows(self._numbers)

    @property
    def nbytes(self) -> int:
        """Bytes of the state of all episodes, without shared tables and without the arrays that a step returns."""
        return self.batch.nbytes + self._streams.nbytes

    @property
    def shared_nbytes(self) -> int:
        """Bytes of the tables that all environments share."""
        view = (part for part in self._view if isinstance(part, np.ndarray))
        return sum(array.nbytes for array in (*self.batch.tables, *view))

    # -- tasks -------------------------------------------------------------------------------------------------------------

    def _rows(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Table rows of the given tasks. A task that is drawn for the first time is added to the tables."""
        unknown = np.unique(numbers[self._row_of[numbers] < 0]).tolist()
        if unknown:
            used = len(self.batch.numbers)
            self.batch.add(unknown)
            scalar, view = self.scalar, self._view
            costs = [scalar.costs(number) for number in unknown]
            right = np.zeros((len(unknown), scalar.k + 2), np.bool_)
            for row, number in zip(right, unknown, strict=True):
                flags = scalar.right(number)
                row[: len(flags)] = flags
            blocks: dict[str, Any] = {
                "query": np.stack([scalar.template(number).query for number in unknown]),
                "candidates": np.stack([scalar.template(number).candidates for number in unknown]),
                "right": right,
                "tokens": np.array([[cost.tokens for cost in four] for four in costs]),
                "price": np.array([[cost.price for cost in four] for four in costs]),
            }
            grown: dict[str, Any] = {name: put_rows(getattr(view, name), used, block) for name, block in blocks.items()}
            self._view = replaced(view, **grown)
            self._row_of[unknown] = np.arange(used, used + len(unknown))
        return self._row_of[numbers]

    def _draw(self, where: Mask) -> Drawn:
        """Rows and seeds of the episodes that begin in `where`, -1 and 0 elsewhere and where the kernels draw them."""
        rows, draws = np.full(self.num_envs, -1, np.int64), np.zeros(self.num_envs, np.uint64)
        if where.any() and not self.all_tables:
            draw_where(self._streams, where, draws)
            rows[where] = self._rows(self._numbers[draws[where] % np.uint64(len(self._numbers))])
        return rows, draws

    # -- playing -----------------------------------------------------------------------------------------------------------

    def _chosen(self, options: dict[str, Any]) -> int | None:
        """The row of ``options["task"]``: a number or an id."""
        if options.get("task") is None:
            return None
        return int(self._rows(np.array([self.scalar._task_number(options["task"])]))[0])

    def _begin(
        self,
        out: kernels.Out,
        where: Mask,
        chosen: int | None = None,
        seeds: NDArray[np.uint64] | None = None,
        given: Mask | None = None,
    ) -> None:
        rows, drawn = self._draw(where)
        if chosen is not None:
            rows[:] = chosen
        show_all, seeded = seeds is not None, np.full(self.num_envs, not self.all_tables)
        if seeds is not None and given is not None:
            drawn, seeded = np.where(given, seeds, drawn), seeded | given
        batch = self.batch
        kernels.reset_where(
            batch.tables,
            batch.rules,
            batch.state,
            self._view,
            out,
            self._streams,
            rows,
            drawn,
            seeded,
            where,
            show_all,
        )

    def _play(self, out: kernels.Out, actions: NDArray[Any], next_step: bool) -> None:
        anew = self._ended if next_step else np.zeros(self.num_envs, np.bool_)
        rows, seeds = self._draw(anew)
        batch, seeded = self.batch, np.full(self.num_envs, not self.all_tables)
        self._run(
            kernels.step_part, kernels.step_parts, (batch.tables, batch.rules, batch.state, self._view, self._streams),
            out, actions, next_step, rows, seeds, seeded, self.threads,
        )  # fmt: skip

    # -- on another device -------------------------------------------------------------------------------------------------

    def _parts(self) -> Parts:
        return Parts((self.batch.tables, self.batch.rules, self._view), self.batch.state, self._streams)

    def _reset_call(self, parts: Parts, out: kernels.Out, begin: Beginning) -> tuple[Any, ...]:
        tables, rules, view = parts.shared
        return (
            kernels.reset_row, tables, rules, parts.state, view, out, parts.streams, begin.rows, begin.seeds, begin.given,
            begin.where, begin.show_all,
        )  # fmt: skip

    def _step_call(self, parts: Parts, out: kernels.Out, turn: Turn) -> tuple[Any, ...]:
        tables, rules, view = parts.shared
        return (
            kernels.step_row, tables, rules, parts.state, view, out, parts.streams, turn.actions, turn.autoreset, turn.rows,
            turn.seeds, turn.given,
        )  # fmt: skip

    # -- results -----------------------------------------------------------------------------------------------------------

    def _fresh(self) -> kernels.Out:
        """Arrays for a step to write to. They are new, except for the observations with ``copy=False``."""
        count, scalar = self.num_envs, self.scalar
        actions = scalar.k + 3
        if self._observed is None:
            shapes = {name: space.shape for name, space in self.single_observation_space.items()}  # type: ignore[attr-defined]
            observed = tuple(
                np.zeros((count, *shapes[name]), np.float32) for name in ("query", "candidates", "stage", "action_mask")
            )
            if not self.copy:
                self._observed = observed
        else:
            observed = self._observed
        query, candidates, stage, shown = observed
        return kernels.Out(
            query=query,
            candidates=candidates,
            stage=stage,
            shown=shown,
            mask=np.zeros((count, actions), np.bool_),
            rewards=np.empty(count),
            terminated=np.empty(count, np.bool_),
            truncated=np.empty(count, np.bool_),
            figures=np.zeros((len(FIGURES), count)),
            counts=np.zeros((len(COUNTS), count), np.int64),
            success=np.zeros(count, np.bool_),
            searched=np.zeros(count, np.bool_),
        )

    def _observations(self, out: kernels.Out) -> Observation:
        return {"query": out.query, "candidates": out.candidates, "stage": out.stage, "action_mask": out.shown}

    def _figures(self, out: kernels.Out) -> dict[str, NDArray[Any]]:
        return {**figures_info(out, self.scalar.cost), "searched": out.searched}
