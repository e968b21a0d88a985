"""The native vector environment of OpenCATP as a planning language: compiled steps of N plans.

It equals Gymnasium's ``SyncVectorEnv`` over `opencatp.plans.OpenCATPEnv` bit for bit: seeds, tasks, samples, observations,
rewards, ends, masks and every figure in `info`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...simulators.opencatp.tasks import all_tasks
from ...simulators.opencatp.tools import TOOLS
from ..opencatp.plans import PROGRESS_FEATURES, TOOL_FEATURES, OpenCATPEnv
from ..tpl import KINDS, N_ACTIONS, kind_of
from .base import Beginning, Mask, Observation, Parts, Turn
from .kernels import opencatp_plans as kernels
from .opencatp_base import OpenCATPVectorBase


class OpenCATPVectorEnv(OpenCATPVectorBase):
    """N environments `costgym/OpenCATP-v0`. The arguments are those of `OpenCATPVectorBase`."""

    kernels = kernels
    scalar_type = OpenCATPEnv
    scalar: OpenCATPEnv

    def _build(self) -> None:
        super()._build()
        scalar, num_envs, tools = self.scalar, self.num_envs, len(TOOLS)
        self.rules = self.rules._replace(cumulative=scalar.reward == "cumulative", max_tokens=scalar.max_tokens)
        self.state = kernels.State(
            episodes=np.zeros(num_envs, kernels.EPISODE),
            kinds=np.array([KINDS.index(kind_of(task)) for task in all_tasks()], np.int8),
            sequence=np.zeros((num_envs, scalar.max_tokens), np.int32),
            ends=np.zeros((num_envs, tools)),
            order=np.zeros((num_envs, tools), np.int8),
            node=np.zeros((num_envs, tools), np.int16),
        )

    def _begin(
        self,
        out: kernels.Out,
        where: Mask,
        chosen: tuple[int, int, int] | None = None,
        seeds: NDArray[np.uint64] | None = None,
        given: Mask | None = None,
    ) -> None:
        kernels.reset_where(
            self.scorer.tables, self.rules, self.state, out, self._streams, where, chosen or (-1, -1, -1), seeds is not None
        )

    def _play(self, out: kernels.Out, actions: NDArray[Any], next_step: bool) -> None:
        scorer = self.scorer
        waiting = kernels.step_all(
            scorer.tables, self.rules, scorer.store, self.state, out, self._streams, actions.astype(np.int64, copy=False),
            next_step, self._pending,
        )  # fmt: skip
        self._conclude(kernels.conclude, out, waiting)

    def _parts(self) -> Parts:
        return Parts((self.scorer.tables, self.rules, self._own_store()), self.state, self._streams)

    def _reset_call(self, parts: Parts, out: kernels.Out, begin: Beginning) -> tuple[Any, ...]:
        tables, rules, _ = parts.shared
        chosen = begin.chosen or (-1, -1, -1)
        return kernels.reset_row, tables, rules, parts.state, out, parts.streams, begin.where, chosen, begin.show_all

    def _step_call(self, parts: Parts, out: kernels.Out, turn: Turn) -> tuple[Any, ...]:
        arguments = *parts.shared, parts.state, out, parts.streams, turn.actions, turn.autoreset
        return kernels.step_alone, *arguments

    def _fresh(self) -> kernels.Out:
        count, kept = self.num_envs, self._kept
        out = kernels.Out(
            common=self._common(N_ACTIONS, kept),
            sequence=np.empty((count, self.scalar.max_tokens), np.int32) if kept is None else kept["tokens"],
            tools=np.empty((count, len(TOOLS), len(TOOL_FEATURES)), np.float32) if kept is None else kept["tools"],
            progress=np.empty((count, len(PROGRESS_FEATURES)), np.float32) if kept is None else kept["progress"],
        )
        if not self.copy:
            self._kept = self._observations(out)
        return out

    def _observations(self, out: kernels.Out) -> Observation:
        common = out.common
        return {
            "tokens": out.sequence,
            "task": common.task,
            "level": common.level,
            "tools": out.tools,
            "progress": out.progress,
        }
