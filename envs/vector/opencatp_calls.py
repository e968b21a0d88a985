"""The native vector environment of OpenCATP call by call: compiled steps of N episodes.

It equals Gymnasium's ``SyncVectorEnv`` over `opencatp.calls.OpenCATPCallsEnv` bit for bit: seeds, tasks, samples, observations,
rewards, ends, masks and every figure in `info`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...simulators.opencatp.batch.clock import Machine, make_clocks
from ...simulators.opencatp.levels import LEVELS
from ...simulators.opencatp.running import gpu_bytes
from ...simulators.opencatp.tools import TOOLS
from ..opencatp.calls import RESOURCE_FEATURES, TOOL_FEATURES, OpenCATPCallsEnv
from .base import Beginning, Mask, Observation, Parts, Turn
from .kernels import opencatp_calls as kernels
from .opencatp_base import OpenCATPVectorBase


class OpenCATPCallsVectorEnv(OpenCATPVectorBase):
    """N environments `costgym/OpenCATPCalls-v0`. The arguments are those of `OpenCATPVectorBase`."""

    kernels = kernels
    scalar_type = OpenCATPCallsEnv
    scalar: OpenCATPCallsEnv

    def _build(self) -> None:
        super()._build()
        scalar, num_envs = self.scalar, self.num_envs
        self.rules = self.rules._replace(
            max_steps=scalar.max_steps,
            concurrent=scalar.concurrent,
            refuse=scalar._refuses,
            record=scalar.enforcement == "record",
        )
        self.machine = _machine(scalar)
        places = (num_envs, len(TOOLS))
        self.state = kernels.State(
            episodes=np.zeros(num_envs, kernels.EPISODE),
            clocks=make_clocks(num_envs),
            order=np.zeros(places, np.int8),
            source=np.zeros(places, np.int8),
            depth=np.zeros(places, np.float32),
            node=np.zeros(places, np.int16),
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
            self.scorer.tables, self.rules, self.machine, self.state, out, self._streams, where, chosen or (-1, -1, -1),
            seeds is not None,
        )  # fmt: skip

    def _play(self, out: kernels.Out, actions: NDArray[Any], next_step: bool) -> None:
        scorer = self.scorer
        waiting = kernels.step_all(
            scorer.tables, self.rules, self.machine, scorer.store, self.state, out, self._streams,
            actions.astype(np.int64, copy=False), next_step, self._pending,
        )  # fmt: skip
        self._conclude(kernels.conclude, out, waiting)

    def _parts(self) -> Parts:
        return Parts((self.scorer.tables, self.rules, self.machine, self._own_store()), self.state, self._streams)

    def _reset_call(self, parts: Parts, out: kernels.Out, begin: Beginning) -> tuple[Any, ...]:
        tables, rules, machine, _ = parts.shared
        chosen = begin.chosen or (-1, -1, -1)
        return kernels.reset_row, tables, rules, machine, parts.state, out, parts.streams, begin.where, chosen, begin.show_all

    def _step_call(self, parts: Parts, out: kernels.Out, turn: Turn) -> tuple[Any, ...]:
        arguments = *parts.shared, parts.state, out, parts.streams, turn.actions, turn.autoreset
        return kernels.step_alone, *arguments

    def _fresh(self) -> kernels.Out:
        count, tools, kept = self.num_envs, len(TOOLS), self._kept
        out = kernels.Out(
            common=self._common(self.scalar.finish_action + 1, kept),
            tools=np.empty((count, tools, len(TOOL_FEATURES)), np.float32) if kept is None else kept["tools"],
            sources=np.empty((count, tools, 1 + tools), np.float32) if kept is None else kept["sources"],
            resources=np.empty((count, len(RESOURCE_FEATURES)), np.float32) if kept is None else kept["resources"],
        )
        if not self.copy:
            self._kept = self._observations(out)
        return out

    def _observations(self, out: kernels.Out) -> Observation:
        common = out.common
        return {
            "task": common.task,
            "level": common.level,
            "tools": out.tools,
            "sources": out.sources,
            "resources": out.resources,
        }


def _machine(scalar: OpenCATPCallsEnv) -> Machine:
    """The machine that calls run on, as in `running.RunningPlan`."""
    needs = np.zeros((LEVELS, len(TOOLS)), np.int64)
    memory = np.zeros(LEVELS, np.int64)
    for level in range(LEVELS):
        by_tool, there = gpu_bytes(scalar.profile, level, scalar.gpu_capacity_mb)
        if there is not None:
            needs[level], memory[level] = [by_tool[tool] for tool in TOOLS], there
    return Machine(
        slots=scalar.slots or 0,
        needs=needs,
        memory=memory,
        load_s=np.array([scalar._load_s[tool] for tool in TOOLS], np.float64),
        fee=float(scalar.profile.pricing.per_run),
    )
