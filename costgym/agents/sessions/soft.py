"""A rule for sessions played as a stochastic policy, whose probabilities off-policy estimates need."""

from collections.abc import Mapping
from math import isfinite, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.agents.base import SESSION, Agent
from costgym.agents.seat import Seat
from costgym.agents.sessions.policies import IndexPolicy
from costgym.agents.stages.policy import drawn
from costgym.envs.sessions.session import SessionSeat
from costgym.simulators.errors import ConfigError

LEFT = ("budget_remaining_price", "budget_remaining_seconds")


class SoftAgent(Agent):
    """Plays what a rule chooses, but with the chance `epsilon` any allowed action, each as likely; an epsilon-greedy policy.

    Told of a `share` of every limit, it makes no call once that share is used up. `log_probabilities` holds that of each action
    of the episode; `probabilities` and `took` follow an episode that somebody else plays. Raises ConfigError for an epsilon or
    a share outside of 0 to 1.
    """

    env_id = SESSION

    def __init__(self, rule: Agent, epsilon: float, share: float = 1.0) -> None:
        for name, value in (("epsilon", epsilon), ("share", share)):
            if not 0.0 <= value <= 1.0:
                raise ConfigError(name, f"expected a number from 0 to 1, got {value!r}")
        self._rule, self.epsilon, self.share = rule, epsilon, share
        self.name, self.privileged = f"{rule.name}-soft", rule.privileged
        self.log_probabilities: list[float] = []

    def reset(self, seat: Seat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._reserved = {name: (1.0 - self.share) * info[name] for name in LEFT if isfinite(info[name])}
        self._generator = np.random.Generator(np.random.Philox(seed))
        self._rule.reset(seat, observation, self._within_share(info), seed)
        world: Any = seat
        if not isinstance(seat, SessionSeat):  # a privileged rule's seat holds the environment
            world = world.env.seat(self.env_id)
        self._recall, self._next = int(world.recall_action), int(world.next_action)
        self.log_probabilities = []

    def _within_share(self, info: Mapping[str, Any]) -> dict[str, Any]:
        return {**info, **{name: max(0.0, info[name] - reserved) for name, reserved in self._reserved.items()}}

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        action = drawn(self.probabilities(observation, info), self._generator)
        self.took(action)
        return action

    def probabilities(self, observation: Any, info: dict[str, Any]) -> NDArray[np.float64]:
        """The probability of each action, (actions,). It asks the rule, so it is called once for each step."""
        shown, mask = self._within_share(info), info["action_mask"].astype(np.bool_)
        if any(shown[name] <= 0.0 for name in self._reserved):
            mask[: self._recall] = False
        self._choice = int(self._rule.act(observation, shown))
        chances: NDArray[np.float64] = self.epsilon * mask / mask.sum()
        chances[self._choice if mask[self._choice] else self._next] += 1.0 - self.epsilon
        self._chances = chances
        return chances

    def took(self, action: int) -> None:
        """Hear which action was taken; the rule goes on from there."""
        chance = float(self._chances[action])
        self.log_probabilities.append(log(chance) if chance > 0.0 else -np.inf)
        if action != self._choice and isinstance(self._rule, IndexPolicy):
            self._rule.called(action)
