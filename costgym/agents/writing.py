"""Policies for worlds with writes: what to do after a call whose end does not tell whether it took effect.

All three call the cheapest tool for each open need, as `cheapest` does, and differ in that alone. They read the numeric view.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.agents.classic import _NEED, CheapestAgent
from costgym.agents.seat import Seat
from costgym.envs.features.templates import MAX_NEEDS
from costgym.envs.features.writing import CHECKS, IDEMPOTENT, PERHAPS, TOLD, TWICE, UNDOES, WRITES
from costgym.simulators.errors import ConfigError


class RetryAgent(CheapestAgent):
    """Repeats a failed call blindly, the cheapest tool first, and never checks."""

    name = "retry"

    def act(self, observation: dict[str, NDArray[np.float32]], info: dict[str, Any]) -> int:
        roles = observation.get("roles")
        if roles is not None:  # checks and undoes are taken for tools that serve nothing
            tools = observation["tools"].copy()
            tools[(roles[:, CHECKS] > 0) | (roles[:, UNDOES] > 0), _NEED:] = 0.0
            observation = {**observation, "tools": tools}
        return super().act(observation, info)


class CheckThenRetryAgent(RetryAgent):
    """Checks after an ambiguous end before it calls again, and takes back what it finds twice; `tries` bounds these too."""

    name = "check-then-retry"

    def act(self, observation: dict[str, NDArray[np.float32]], info: dict[str, Any]) -> int:
        roles, effects = observation.get("roles"), observation.get("effects")
        if roles is not None and effects is not None:
            for need in range(len(effects)):
                wanted = {UNDOES: effects[need, TOLD] >= TWICE, CHECKS: effects[need, PERHAPS] > 0}
                for role, due in wanted.items():
                    if due and (chosen := self._beside(observation, info, role, need)) is not None:
                        return chosen
        return super().act(observation, info)

    def _beside(self, observation: dict[str, NDArray[np.float32]], info: dict[str, Any], role: int, need: int) -> int | None:
        """The cheapest check or undo of a need that may be called and was not tried too often."""
        tools = observation["tools"]
        prices = self._view.prices(tools)
        rows = np.flatnonzero(
            info["action_mask"][: len(tools)]
            & (observation["roles"][:, role] > 0)
            & (tools[:, _NEED + need] > 0)
            & (self._made < 4 * self.tries)
            & (prices <= info["budget_remaining_price"])
        )
        if not len(rows):
            return None
        chosen = int(rows[np.argmin(prices[rows])])
        self._made[chosen] += 1
        return chosen


class IdempotentAgent(RetryAgent):
    """Writes with tools that take an idempotency key alone, and repeats on the same tool, where a repeat does no harm.

    Another tool does not know the key, so it is not tried even where the first never says that it worked; tools without a key
    are called for needs that no tool with one serves.
    """

    name = "idempotent"

    def __init__(self, tries: int = 4) -> None:
        super().__init__(tries)

    def reset(self, seat: Seat, observation: Any, info: dict[str, Any], seed: int) -> None:
        if "roles" not in getattr(seat.observation_space, "spaces", {}):
            raise ConfigError("agent idempotent", "expected a world with writes, such as the scenario marketplace-writes")
        super().reset(seat, observation, info, seed)

    def act(self, observation: dict[str, NDArray[np.float32]], info: dict[str, Any]) -> int:
        tools, roles = observation["tools"], observation["roles"]
        mask = info["action_mask"].copy()
        keyed = roles[:, IDEMPOTENT] > 0
        for row in np.flatnonzero((roles[:, WRITES] > 0) & (roles[:, IDEMPOTENT] == 0)):
            needs = tools[row, _NEED : _NEED + MAX_NEEDS] > 0
            if (tools[keyed, _NEED : _NEED + MAX_NEEDS][:, needs] > 0).any():
                mask[row] = False  # a tool with a key serves the same
        for need in np.flatnonzero(observation["effects"][:, PERHAPS] > 0):
            mask[: len(tools)] &= (tools[:, _NEED + need] == 0) | (roles[:, WRITES] == 0) | (self._made > 0)
        return super().act(observation, {**info, "action_mask": mask})
