"""The native vector view of OpenCATP as a planning language: N plans a step, no Python loop over them.

Equal to Gymnasium's ``SyncVectorEnv`` over `opencatp.OpenCATPEnv` to the last bit: seeds, tasks, samples, observations,
rewards, ends, masks and every figure in `info`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ...simulators.opencatp.tasks import all_tasks
from ...simulators.opencatp.tools import TOOLS
from ..opencatp.plans import PROGRESS_FEATURES, TOOL_FEATURES, OpenCATPEnv
from ..tpl import KINDS, N_ACTIONS, kind_of
from .base import Mask, Observation
from .kernels import opencatp_plans as kernels
from .opencatp_base import OpenCATPVectorBase, without_rendering


class OpenCATPVectorEnv(OpenCATPVectorBase):
    """`costgym/OpenCATP-v0`, N at once.

    Args:
        num_envs, autoreset_mode, copy: see `NativeVectorEnv`.
        settings: of `OpenCATPEnv`, but for `render_mode`. Scores from elsewhere (`scores`) are asked once per question and
            kept.

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
        settings.pop("max_episode_steps", None)  # from a spec, where it is `max_tokens`
        self.scalar = scalar = OpenCATPEnv(**without_rendering(num_envs, autoreset_mode, settings))
        super().__init__(
            scalar, num_envs, autoreset_mode, copy,
            columns=len(TOOL_FEATURES), cumulative=scalar.reward == "cumulative", max_tokens=scalar.max_tokens,
        )  # fmt: skip
        tools = len(TOOLS)
        self.state = kernels.State(
            episodes=np.zeros(num_envs, kernels.EPISODE),
            kinds=np.array([KINDS.index(kind_of(task)) for task in all_tasks()], np.int8),
            sequence=np.zeros((num_envs, scalar.max_tokens), np.int32),
            ends=np.zeros((num_envs, tools)),
            order=np.zeros((num_envs, tools), np.int8),
            node=np.zeros((num_envs, tools), np.int16),
        )
        self._kept: Observation | None = None

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
        while waiting:
            scorer.look_up()
            waiting = kernels.conclude(scorer.tables, self.rules, scorer.store, self.state, out, self._pending, waiting)

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
