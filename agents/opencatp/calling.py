"""Agents of `costgym/OpenCATPCalls-v0`: a plan made by calls, side by side where it allows, and calls at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...envs.opencatp.calls import CALLS, FINISH, TOOL_FEATURES, WAIT
from ...simulators.opencatp.tools import TOOLS
from ...simulators.plan import TASK_INPUT, PlanStep
from ..base import PLAN_CALLS, Agent
from ..classic import RandomAgent
from ..seat import Seat
from .base import Planner, situation_at

_CALLED, _RUNNING, _READY = (TOOL_FEATURES.index(name) for name in ("called", "running", "ready"))


class PlanCaller(Agent):
    """Makes a planner's plan by calls: each tool as soon as all that it depends on is there, then `finish`.

    A tool is called on the last of its dependencies, as plans are read. What cannot be called is left out, with all that
    depends on it; without a plan there is nothing to do but to finish.
    """

    env_id = PLAN_CALLS

    def __init__(self, planner: Planner) -> None:
        self.planner, self.name, self.model = planner, planner.name, planner.model
        self.privileged = getattr(planner, "privileged", False)
        self._steps: tuple[PlanStep, ...] = ()

    def reset(self, seat: Seat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self.proposal = self.planner.propose(situation_at(seat, seed))
        self._steps = () if self.proposal.plan is None else self.proposal.plan.steps

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        tools = observation["tools"]
        there = {TASK_INPUT, *(TOOLS[number] for number in np.flatnonzero(tools[:, _READY]))}
        for step in self._steps:
            call = (step.tool, step.deps[-1])
            if call in CALLS and there.issuperset(step.deps) and not tools[TOOLS.index(step.tool), _CALLED]:
                return CALLS.index(call)
        return WAIT if tools[:, _RUNNING].any() else FINISH


class RandomCaller(RandomAgent):
    """Any action that the mask allows, each as likely."""

    env_id = PLAN_CALLS
