"""Policies without learning or language: random, cheapest first, and greedy for the best advertised value.

They read the numeric view's observation and mask, nothing hidden, and play both of its forms.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.agents.base import NUMERIC, Agent
from costgym.agents.seat import NumericSeat, Seat, expect_seat
from costgym.envs.features.templates import MAX_NEEDS, NEED_FEATURES, RESOURCE_FEATURES, TOOL_FEATURES
from costgym.simulators.errors import check_positive

_SUCCESS = TOOL_FEATURES.index("success")
_NEED = TOOL_FEATURES.index("need_1")
_WANTED, _KNOWN, _READY = (NEED_FEATURES.index(name) for name in ("wanted", "known", "ready"))
_RUNNING = RESOURCE_FEATURES.index("in_flight")
_ROUNDING = 1e-5  # prices in an observation are float32


class RandomAgent(Agent):
    """Any action that the mask allows, each as likely."""

    name = "random"

    def __init__(self, env_id: str = NUMERIC) -> None:
        self.env_id = env_id

    def reset(self, seat: Seat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(seed))

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        allowed = np.flatnonzero(info["action_mask"])
        return int(allowed[self._generator.integers(len(allowed))])

    def probabilities(self, observation: Any, info: dict[str, Any]) -> NDArray[np.float64]:
        """Return the probability of each action, (actions,)."""
        chances: NDArray[np.float64] = info["action_mask"].astype(np.float64)
        chances /= chances.sum()
        return chances


class DoNothingAgent(Agent):
    """Ends every episode at once: the score below which a policy would better not have acted."""

    name = "do-nothing"

    def __init__(self, env_id: str = NUMERIC) -> None:
        self.env_id = env_id

    def reset(self, seat: Seat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._finish = int(seat.action_space.n) - 1  # type: ignore[attr-defined]

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        return self._finish


class OrderedAgent(Agent):
    """Meets one need after the other by a fixed order of tools, each called `tries` times; stops when it can afford none."""

    def __init__(self, tries: int = 2) -> None:
        check_positive("tries", tries)
        self.tries = tries

    def reset(self, seat: Seat, observation: Any, info: dict[str, Any], seed: int) -> None:
        self._view = view = expect_seat(seat, NumericSeat, self)
        self._wait, self._finish = view.wait_action, view.finish_action
        self._made = np.zeros(view.max_tools, np.int64)

    def act(self, observation: dict[str, NDArray[np.float32]], info: dict[str, Any]) -> int:
        tools, needs, resources = observation["tools"], observation["needs"], observation["resources"]
        mask = info["action_mask"]
        if self._wait is not None and resources[_RUNNING] > 0 and mask[self._wait]:
            return self._wait
        prices = self._view.prices(tools)
        allowed = mask[: len(tools)] & (self._made < self.tries)
        allowed &= prices <= info["budget_remaining_price"] + _ROUNDING * prices
        if info["budget_remaining_calls"] < 1:
            allowed[:] = False
        for need in range(MAX_NEEDS):
            if needs[need, _WANTED] == 0 or needs[need, _KNOWN] > 0 or needs[need, _READY] == 0:
                continue
            serving = np.flatnonzero(allowed & (tools[:, _NEED + need] > 0))
            if len(serving):
                scores = self._scores(prices[serving], tools[serving, _SUCCESS].astype(np.float64))
                chosen = int(serving[np.argmin(scores)])
                self._made[chosen] += 1
                return chosen
        return self._finish

    def _scores(self, prices: NDArray[np.float64], success: NDArray[np.float64]) -> NDArray[np.float64]:
        """Score each tool; the lowest is called, the first of equals."""
        raise NotImplementedError


class CheapestAgent(OrderedAgent):
    """The cheapest tool that serves the first open need; after `tries` failures the next cheapest."""

    name = "cheapest"

    def _scores(self, prices: NDArray[np.float64], success: NDArray[np.float64]) -> NDArray[np.float64]:
        return prices


class GreedyAgent(OrderedAgent):
    """The best advertised value: the tool with the most advertised success per price."""

    name = "greedy"

    def _scores(self, prices: NDArray[np.float64], success: NDArray[np.float64]) -> NDArray[np.float64]:
        return -success / np.maximum(prices, 1e-9)
