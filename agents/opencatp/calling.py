"""Agents of `costgym/OpenCATPCalls-v0`, in both of its forms: a plan made by calls, and calls at random."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from ...envs.opencatp.calls import CALLS, TOOL_FEATURES
from ...simulators.opencatp.tools import TOOLS
from ...simulators.plan import TASK_INPUT, PlanStep
from ..base import PLAN_CALLS, Agent
from ..classic import RandomAgent
from .base import Planner, Situation

_CALLED, _RUNNING, _READY = (TOOL_FEATURES.index(name) for name in ("called", "running", "ready"))


class PlanCaller(Agent):
    """Makes a planner's plan by calls: each tool as soon as all that it depends on is there, then `finish`.

    A tool is called on the last of its dependencies, as plans are read. What cannot be called is left out, with all that
    depends on it; without a plan there is nothing to do but to finish.
    """

    env_id = PLAN_CALLS

    def __init__(self, planner: Planner) -> None:
        self.planner, self.name, self.model = planner, planner.name, planner.model
        self._steps: tuple[PlanStep, ...] = ()

    def reset(self, env: gym.Env[Any, Any], observation: Any, info: dict[str, Any], seed: int) -> None:
        world: Any = env.unwrapped
        self._wait: int | None = world.wait_action
        self._finish: int = world.finish_action
        self.proposal = self.planner.propose(Situation(world.task, world.sample, world.size_level, world.evaluator, seed))
        self._steps = () if self.proposal.plan is None else self.proposal.plan.steps

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        tools = observation["tools"]
        there = {TASK_INPUT, *(TOOLS[number] for number in np.flatnonzero(tools[:, _READY]))}
        for step in self._steps:
            call = (step.tool, step.deps[-1])
            if call in CALLS and there.issuperset(step.deps) and not tools[TOOLS.index(step.tool), _CALLED]:
                return CALLS.index(call)
        return self._finish if self._wait is None or not tools[:, _RUNNING].any() else self._wait


class RandomCaller(RandomAgent):
    """Any action that the mask allows, each as likely."""

    env_id = PLAN_CALLS
