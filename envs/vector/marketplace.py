"""The native vector environment of the marketplace: compiled steps of N episodes.

It equals Gymnasium's ``SyncVectorEnv`` over `marketplace.MarketplaceEnv` bit for bit: seeds, tasks, observations, rewards,
ends, masks and every figure in `info`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...simulators.batch.rng import draw_where
from ...simulators.batch.state import Batch
from ...simulators.batch.tables import put_rows, replaced
from ...simulators.errors import ConfigError
from ...simulators.ledger import RESOURCES
from ..marketplace import MAX_NEEDS, NEED_FEATURES, RESOURCE_FEATURES, TOOL_FEATURES, MarketplaceEnv
from .base import Beginning, Mask, NativeVectorEnv, Observation, Parts, Turn
from .info import COUNTS, FIGURES, figures_info
from .kernels import marketplace as kernels

EAGER = 2_048
"""Tasks of a split up to which all tables are made at the start."""


class MarketplaceVectorEnv(NativeVectorEnv):
    """N environments `costgym/Marketplace-v0`. The arguments are those of `NativeVectorEnv`."""

    scalar_type = MarketplaceEnv
    scalar: MarketplaceEnv

    def _build(self) -> None:
        scalar, num_envs = self.scalar, self.num_envs
        if len(scalar.scenarios) > 1:
            what = 'the native batch plays one scenario; several take vectorization_mode="sync"'
            raise ConfigError("scenario", f"{what}, got {len(scalar.scenarios)}")
        # the tables of a small split are made at the start and drawn from by the kernels; those of a large one when drawn
        self._by_row = len(scalar.numbers) > EAGER and not self.all_tables
        numbers = [] if self._by_row else list(scalar.numbers)
        self.batch = Batch(
            scalar.world, numbers, num_envs, scalar.budget, scalar.enforcement, scalar.max_tools, scalar.max_steps,
            at_once=None if scalar.concurrent else 1,
        )  # fmt: skip
        self._numbers = np.array(scalar.numbers, np.int64)
        self._row_of = {number: row for row, number in enumerate(numbers)}
        self._undrawn = np.full(num_envs, -1, np.int64), np.zeros(num_envs, np.uint64)
        self._used = np.zeros(self.threads, np.int64)
        self._view = self._empty_view()
        if numbers:
            self._extend_view(0)
        self._observed: tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]] | None = None

    def _empty_view(self) -> kernels.View:
        scalar, width = self.scalar, self.scalar.max_tools
        shares = scalar._shares
        return kernels.View(
            tools=np.zeros((0, width, len(TOOL_FEATURES)), np.float32),
            plain=np.zeros((0, MAX_NEEDS, len(NEED_FEATURES)), np.float32),
            mask=np.zeros((0, 1, scalar.finish_action + 1), np.bool_),
            quote=np.zeros((0, 1, width), np.float32),
            dues=np.zeros((0, 1, width)),
            slots=np.zeros((0, width), np.int16),
            rows=np.zeros((0, width), np.int16),
            serves=np.zeros((0, width), np.uint8),
            concurrent=scalar.concurrent,
            useful=scalar.mask == "useful",
            highest=float(scalar._highest),
            least=float(scalar._least),
            choices=0 if self._by_row else len(scalar.numbers),
            max_steps=scalar.max_steps,
            time_limit=self.time_limit,
            scale=float(scalar._scale),
            loss=float(scalar._loss),
            alpha=float(scalar.world.alpha),
            price_share=float(shares[0]),
            seconds_share=float(shares[1]),
            calls_share=float(shares[3]),
            judged=scalar.grading == "judge",
            resource=RESOURCES.index(scalar.cost),
        )

    def _extend_view(self, first: int) -> None:
        """Add what is seen of the tasks from a row of the tables on."""
        scalar, tables, end = self.scalar, self.batch.tables, len(self.batch.numbers)
        templates = [scalar.template(number) for number in self.batch.numbers[first:]]
        slots, rows = np.zeros((2, len(templates), scalar.max_tools), np.int16)
        mask = np.repeat(np.stack([template.mask for template in templates])[:, None], tables.banned.shape[1], axis=1)
        for number, template in enumerate(templates):
            count = len(template.slots)
            slots[number, :count], rows[number, :count] = template.slots, template.rows
            mask[number, :, :count] &= ~tables.banned[first + number][:, list(template.slots)]
        blocks: dict[str, NDArray[Any]] = {
            "tools": np.stack([template.tools for template in templates]),
            "plain": np.stack([template.needs for template in templates]),
            "mask": mask,
            "quote": np.minimum(tables.quote[first:end] * scalar._scale, scalar._highest).astype(np.float32),
            "dues": np.take_along_axis(tables.quote[first:end], slots[:, None].astype(np.int64), axis=2),
            "slots": slots,
            "rows": rows,
            "serves": np.left_shift(1, np.stack([template.need_of for template in templates])).astype(np.uint8),
        }
        grown: dict[str, Any] = {name: put_rows(getattr(self._view, name), first, block) for name, block in blocks.items()}
        self._view = replaced(self._view, **grown)

    @property
    def nbytes(self) -> int:
        """Bytes of the state of all episodes, without shared tables and without the arrays that a step returns."""
        return self.batch.nbytes + self._streams.nbytes

    @property
    def shared_nbytes(self) -> int:
        """Bytes of the tables that all environments share."""
        view = (part for part in self._view if isinstance(part, np.ndarray))
        return sum(array.nbytes for array in (*self.batch.tables, *view))

    # -- reset -------------------------------------------------------------------------------------------------------------

    def _chosen(self, options: dict[str, Any]) -> int | None:
        """The row of ``options["task"]``: a number or an id."""
        if options.get("scenario") is not None:
            raise ConfigError('options["scenario"]', "the native batch plays one scenario; make it with that one")
        if options.get("task") is None:
            return None
        return int(self._rows(np.array([self.scalar._task_number(options["task"])]))[0])

    def _rows(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of some tasks; those that have none get one now."""
        wanted = numbers.tolist()
        unknown = [number for number in dict.fromkeys(wanted) if number not in self._row_of]
        if unknown:
            first = len(self.batch.numbers)
            self.batch.add(unknown)
            self._row_of.update(zip(unknown, range(first, first + len(unknown)), strict=True))
            self._extend_view(first)
        return np.array([self._row_of[number] for number in wanted], np.int64)

    def _draw(self, where: Mask | None) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Rows and seeds for the episodes that begin in `where`; -1 where the kernels draw them."""
        if not self._by_row or where is None or not where.any():
            return self._undrawn
        rows, draws = self._undrawn[0].copy(), self._undrawn[1].copy()
        draw_where(self._streams, where, draws)
        rows[where] = self._rows(self._numbers[draws[where] % np.uint64(len(self._numbers))])
        return rows, draws

    def _begin(
        self,
        out: kernels.Out,
        where: Mask,
        chosen: int | None = None,
        seeds: NDArray[np.uint64] | None = None,
        given: Mask | None = None,
    ) -> None:
        show_all = seeds is not None
        rows, drawn = self._draw(where)
        if chosen is not None:
            rows = np.full(self.num_envs, chosen)
        seeds = drawn if seeds is None or given is None else np.where(given, seeds, drawn)
        given = np.full(self.num_envs, self._by_row) if given is None else given | self._by_row
        batch = self.batch
        used = kernels.reset_where(
            batch.tables, batch.rules, batch.state, self._view, out, self._streams, rows, seeds, given, where, show_all,
            self._by_row,
        )  # fmt: skip
        batch.make_room(used)

    # -- step --------------------------------------------------------------------------------------------------------------

    def _play(self, out: kernels.Out, actions: NDArray[Any], next_step: bool) -> None:
        batch = self.batch
        rows, seeds = self._draw(self._ended if next_step else None)
        self._run(
            kernels.step_part, kernels.step_parts, (batch.tables, batch.rules, batch.state, self._view, self._streams),
            out, actions, next_step, self.copy, rows, seeds, self._by_row, self._used,
        )  # fmt: skip
        if batch.at_once is None:
            batch.make_room(int(self._used.max()))

    # -- on another device -------------------------------------------------------------------------------------------------

    def _parts(self) -> Parts:
        self.batch.make_full_room()
        return Parts((self.batch.tables, self.batch.rules, self._view), self.batch.state, self._streams)

    def _reset_call(self, parts: Parts, out: kernels.Out, begin: Beginning) -> tuple[Any, ...]:
        tables, rules, view = parts.shared
        return (
            kernels.reset_row, tables, rules, parts.state, view, out, parts.streams, begin.rows, begin.seeds, begin.given,
            begin.where, begin.show_all, False,
        )  # fmt: skip

    def _step_call(self, parts: Parts, out: kernels.Out, turn: Turn) -> tuple[Any, ...]:
        tables, rules, view = parts.shared
        return (
            kernels.step_row, tables, rules, parts.state, view, out, parts.streams, turn.actions, turn.autoreset, turn.fresh,
            turn.rows, turn.seeds, False,
        )  # fmt: skip

    # -- what is handed out ------------------------------------------------------------------------------------------------

    def _fresh(self) -> kernels.Out:
        """Arrays for a step to write to. They are new, except for the observations with ``copy=False``."""
        count, scalar = self.num_envs, self.scalar
        width = scalar.max_tools
        if self._observed is not None:
            tools, needs, resources = self._observed
        else:
            tools, needs, resources = (
                self._pool.empty(count, width, len(TOOL_FEATURES)),
                self._pool.empty(count, MAX_NEEDS, len(NEED_FEATURES)),
                self._pool.empty(count, len(RESOURCE_FEATURES)),
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
        )
        if not self.copy:
            self._observed = tools, needs, resources
        return out

    def _observations(self, out: kernels.Out) -> Observation:
        return {"tools": out.tools, "needs": out.needs, "resources": out.resources}

    def _figures(self, out: kernels.Out) -> dict[str, NDArray[Any]]:
        return figures_info(out, self.scalar.cost)
