"""A decider at play in `costgym/DecisionAware-v0`."""

from typing import Any

from ...envs.decision import ANSWER, FIRST_CALL, SEARCH
from ...simulators.decision.samples import Example
from ..base import DECISION, Agent
from ..classic import DoNothingAgent, RandomAgent
from ..seat import DecisionSeat
from .deciders import Decider, DeciderHandle, RuleDecider

FITTED_ON = 2000  # training examples that the rule-based decider of the leaderboard learns its thresholds from


class DeerAgent(Agent):
    """Decides by text: answers or searches, then calls a candidate or says that none fits."""

    env_id = DECISION

    def __init__(self, decider: Decider) -> None:
        self.name, self.model = decider.name, decider.model
        self.decider = decider
        if decider.on_world_side:
            handle = DeciderHandle(decider)
            self.decider, self.handles = handle, (handle,)

    def reset(self, seat: DecisionSeat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._query, self._none = seat.query, seat.none_action

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        if not info["searched"]:
            searches = self.decider.search(self._query) and info["action_mask"][SEARCH]
            return SEARCH if searches else ANSWER
        chosen = self.decider.choose(self._query, info["documents"])
        action = self._none if chosen is None else FIRST_CALL + chosen
        # a call that the budget or a ban forbids leaves one thing to say; so does a search that the budget forbids
        return int(action if info["action_mask"][action] else self._none)


class RuleAgent(DeerAgent):
    """The rule-based decider, fitted on the training split of whichever world it meets."""

    wants_examples = FITTED_ON

    def __init__(self) -> None:
        self.name, self.model = RuleDecider.name, ""
        self._fitted_on: tuple[Example, ...] | None = None

    def reset(self, seat: DecisionSeat, observation: Any, info: dict[str, Any], seed: int) -> None:
        if seat.examples is not self._fitted_on:
            self._fitted_on, self.decider = seat.examples, RuleDecider.fit(seat.examples)
        super().reset(seat, observation, info, seed)


class RandomDecider(RandomAgent):
    """Any decision that the mask allows, each as likely."""

    env_id = DECISION


class DirectAnswerer(DoNothingAgent):
    """Answers every query at once: the least that can be done."""

    env_id = DECISION

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        return ANSWER
