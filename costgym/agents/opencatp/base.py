"""The planner's interface: it is asked for a whole plan, which an agent then writes token by token."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from costgym.agents.base import PLAN_CALLS, PLAN_CHAT, PLANS, Agent
from costgym.agents.seat import PlanSeat, Seat, WorldSeat
from costgym.envs.opencatp.calls import CALLS, TOOL_FEATURES
from costgym.envs.tpl import ACTION_TOKENS, END, TplState, encode, kind_of
from costgym.simulators.calls import Usage
from costgym.simulators.draws import stable_generator
from costgym.simulators.errors import ConfigError
from costgym.simulators.opencatp.scoring.evaluation import Evaluator
from costgym.simulators.opencatp.tasks import OpenCATPTask
from costgym.simulators.opencatp.tools import TOOLS
from costgym.simulators.plan import TASK_INPUT, Plan, PlanStep

NO_USAGE = Usage(0, 0)


@dataclass(frozen=True, slots=True)
class Situation:
    """The question that a planner is asked."""

    task: OpenCATPTask  # the task
    sample: int | None  # number of the image; None for a planner that may not know it
    level: int  # the image's size level, 0 to 3
    evaluator: Evaluator  # prices, and scores as far as they may be known: of the train split's samples
    seed: int  # keys the planner's own chance
    complete: bool = False  # the plan must answer with everything that is wanted, as the planning language demands


@dataclass(frozen=True, slots=True)
class Proposal:
    """A planner's answer."""

    plan: Plan | None  #: the plan; None if the reply is not a plan
    problem: str = ""  #: why the reply is not a plan
    usage: Usage = NO_USAGE  #: tokens of a language model
    #: counts of a real model's replies, by the names in `agents.models.base.REPLIES`
    replies: Mapping[str, int] = field(default_factory=dict)


class Planner(Protocol):
    """Proposes a plan for a situation.

    Attributes:
        name: Its name on the leaderboard.
        model: The language model behind it, or "".
    """

    name: str
    model: str

    def propose(self, situation: Situation) -> Proposal:
        """Return a plan, or the reason why there is no plan."""
        ...


def situation_at(seat: Seat, seed: int, complete: bool = False) -> Situation:
    """Return the question for a planner at a seat; a bound is shown the sample and all scores."""
    if isinstance(seat, WorldSeat):
        world = seat.env
        return Situation(world.task, world.sample, world.size_level, world.evaluator, seed, complete)
    if not isinstance(seat, PlanSeat):
        raise ConfigError("planner", f"expected a seat in an environment of OpenCATP, got one in {seat.env_id}")
    return Situation(seat.task, None, seat.level, seat.evaluator, seed, complete)


class PlanPlayer(Agent):
    """Base of the agents that play a planner's plan in one of the environments of OpenCATP."""

    def __init__(self, planner: Planner) -> None:
        self.planner, self.name, self.model = planner, planner.name, planner.model
        self.privileged = getattr(planner, "privileged", False)


class PlanAgent(PlanPlayer):
    """Writes a planner's plan into `costgym/OpenCATP-v0`, one token an action.

    A plan that the masks do not admit is written up to the first token that is not allowed, which is then offered until the
    steps are used up; so is the end where there is no plan. Either way the plan is not finished, and counts as invalid.
    """

    env_id = PLANS

    def reset(self, seat: Seat, observation: Any, info: dict[str, Any], seed: int) -> None:
        situation = situation_at(seat, seed, complete=True)
        self.proposal = self.planner.propose(situation)
        self.replies = self.proposal.replies
        self._actions = [] if self.proposal.plan is None else actions_of(self.proposal.plan, kind_of(situation.task))

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        action = self._actions[0] if self._actions else END
        if self._actions and info["action_mask"][action]:
            self._actions.pop(0)
        return action


class PlanSpeaker(PlanPlayer):
    """Gives a planner's whole plan to `costgym/OpenCATPChat-v0`, with the tokens that its language model used."""

    env_id = PLAN_CHAT

    def reset(self, seat: Seat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self.proposal = self.planner.propose(situation_at(seat, seed))
        self.replies = self.proposal.replies

    def act(self, observation: Any, info: dict[str, Any]) -> str:
        plan, tokens = self.proposal.plan, self.proposal.usage
        usage = {**tokens.document(), "seconds": tokens.seconds}  # recorded plans say so even where it is unknown
        if plan is None:
            return json.dumps({"plan": None, "problem": self.proposal.problem, "usage": usage})
        return json.dumps({"plan": plan.to_list(), "usage": usage})


def actions_of(plan: Plan, kind: str) -> list[int]:
    """Return the choices that write a plan, up to the first that the masks forbid."""
    state = TplState(kind)
    chosen = []
    for action in [ACTION_TOKENS.index(token) for token in encode(plan)[1:] if token in ACTION_TOKENS]:
        chosen.append(action)
        if not state.mask()[action]:
            break
        state.push(action)
    return chosen


def generator(seed: int, name: str) -> np.random.Generator:
    """Return the generator of a planner's own random choices."""
    return stable_generator(seed, "planner", name)


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
