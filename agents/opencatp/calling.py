"""Agents of `costgym/OpenCATPCalls-v0`, in both of its forms: a plan made by calls, and calls at random."""

from typing import Any

import numpy as np

from ...envs.opencatp.calls import CALLS, TOOL_FEATURES
from ...simulators.opencatp.tools import TOOLS
from ...simulators.plan import TASK_INPUT, PlanStep
from ..base import PLAN_CALLS
from ..classic import DoNothingAgent, RandomAgent
from ..seat import Seat
from .base import PlanPlayer, situation_at

_RUNNING, _READY = (TOOL_FEATURES.index(name) for name in ("running", "ready"))


class PlanCaller(PlanPlayer):
    """Makes a planner's plan by calls: each tool as soon as all that it depends on is there, then `finish`.

    A tool is called on the last of its dependencies, as plans are read. What cannot be called or paid is left out, with all
    that depends on it; without a plan there is nothing to do but to finish.
    """

    env_id = PLAN_CALLS

    def reset(self, seat: Seat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._finish = int(seat.action_space.n) - 1  # type: ignore[attr-defined]
        self._wait = len(CALLS) if self._finish > len(CALLS) else None
        self.proposal = self.planner.propose(situation_at(seat, seed))
        self._steps: tuple[PlanStep, ...] = () if self.proposal.plan is None else self.proposal.plan.steps

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        tools = observation["tools"]
        there = {TASK_INPUT, *(TOOLS[number] for number in np.flatnonzero(tools[:, _READY]))}
        for step in self._steps:
            call = (step.tool, step.deps[-1])
            if call in CALLS and there.issuperset(step.deps) and info["action_mask"][CALLS.index(call)]:
                return CALLS.index(call)
        return self._finish if self._wait is None or not tools[:, _RUNNING].any() else self._wait


class RandomCaller(RandomAgent):
    """Any action that the mask allows, each as likely."""

    env_id = PLAN_CALLS


class IdleCaller(DoNothingAgent):
    """Ends every episode at once."""

    env_id = PLAN_CALLS
